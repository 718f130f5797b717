"""Which workers may answer a job together: those whose answers to one question are the same."""

import hashlib
from typing import Final

from service.planning.engines.vllm.findings import RULES_VERSION as VLLM_RULES_VERSION
from service.planning.identity import RULES_VERSION

RULES: Final = f"{RULES_VERSION}; {VLLM_RULES_VERSION}"
"""Every rule and constant that can change an answer, recorded with each job."""


def queue_of(rules_version: str) -> str:
    """The queue of the jobs of one release; workers of another do not look there."""
    return f"rigfit-{hashlib.sha256(rules_version.encode()).hexdigest()[:16]}"
