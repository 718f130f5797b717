"""Which workers may answer a job together: those whose answers to one question are the same."""

import hashlib
from collections.abc import Iterator
from typing import Final

from service.builtin import builtin_folder
from service.planning.engines.vllm.findings import RULES_VERSION as VLLM_RULES_VERSION
from service.planning.identity import RULES_VERSION
from service.planning.program import digest_of_files, source_files

_ANSWERING: Final = ("catalog", "contract", "core", "planning")
_DIGEST_CHARACTERS: Final = 12


def program_digest() -> str:
    """Digest of the code that makes answers and of the figures that it reads from files.

    So that two builds are never taken for one although nobody thought of a version that should have moved.
    """
    return digest_of_files(_files())[:_DIGEST_CHARACTERS]


def _files() -> Iterator[tuple[str, str]]:
    yield from source_files(*_ANSWERING)
    data = builtin_folder("hardware_db")
    yield from ((path.relative_to(data).as_posix(), str(path)) for path in sorted(data.rglob("*.toml")))


RULES: Final = f"{RULES_VERSION}; {VLLM_RULES_VERSION}; program {program_digest()}"
"""Everything that can change an answer, recorded with each job."""


def queue_of(rules_version: str) -> str:
    """The queue of the jobs of one release; workers of another do not look there."""
    return f"rigfit-{hashlib.sha256(rules_version.encode()).hexdigest()[:16]}"
