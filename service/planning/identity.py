"""The identity of a plan: the same question under the same rules and data has the same id."""

import hashlib
from functools import lru_cache

import orjson

from service.contract.json_bytes import json_bytes
from service.contract.request import PlanRequest
from service.core.engines.llamacpp.companions import ALONE
from service.core.timing.fitted import FITTED_ON
from service.core.types import Rig
from service.planning.companion_answer import draft_plan, mmproj_plan
from service.planning.findings import Findings

ID_PREFIX = "pln_"
DIGEST_CHARACTERS = 32
# moves with every change of a rule or constant that can change an answer
RULES_VERSION = f"llama.cpp of llama-cpp-python 0.3.36, rules 4, speeds of {FITTED_ON}"


def plan_id(findings: Findings) -> str:
    """Digest of the question, of the facts its names stand for, and of the rules.

    Names are replaced by what they resolve to, so that "2x rtx-3090" and two entries, or an alias and its slug, are the
    same question; the facts are the data's version.
    """
    question = stated_beside_names(findings.request)
    resolved = [findings.model.name, *findings.notes], _companions(findings), RULES_VERSION, data_version(findings)
    return ID_PREFIX + digest([question, *resolved])[:DIGEST_CHARACTERS]


def stated_beside_names(request: PlanRequest) -> str:
    """The JSON of a request without what it says by names, which are resolved first."""
    stated = dict(vars(request))
    del stated["model"]
    stated["rig"] = rig = dict(vars(request.rig))
    del rig["gpus"]
    stated["engine"] = engine = dict(vars(request.engine))
    for name in ("draft", "mmproj"):
        engine.pop(name, None)
    return json_bytes(stated).decode()


def data_version(findings: Findings) -> str:
    """Digest of the facts that a plan is computed from: the model's content and every figure of every card."""
    beside = findings.companions
    files = [part.model.id for part in (beside.draft, beside.projector) if part is not None and part.model is not None]
    return _data_version(findings.model.id, findings.rig, *files)


@lru_cache(maxsize=4096)
def _data_version(model_id: str, rig: Rig, *files: str) -> str:
    return digest([model_id, rig, *files])


def _companions(findings: Findings) -> dict[str, object]:
    """What runs beside the model in one spelling, with what was read into the names."""
    if findings.companions is ALONE:
        return {}
    stated = {"draft": draft_plan(findings), "mmproj": mmproj_plan(findings)}
    resolved = {field: part.model_dump(mode="json") for field, part in stated.items() if part is not None}
    return resolved | ({"companion_notes": list(findings.companion_notes)} if findings.companion_notes else {})


def digest(content: object) -> str:
    """SHA-256 of JSON-ready content, in hexadecimal."""
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
