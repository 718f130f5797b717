"""The identity of a plan: the same question under the same rules and data has the same id."""

import hashlib

import orjson

from service.planning.findings import Findings

ID_PREFIX = "pln_"
DIGEST_CHARACTERS = 32
# moves with every change of a rule or constant that can change an answer
RULES_VERSION = "llama.cpp of llama-cpp-python 0.3.36, rules 1"


def plan_id(findings: Findings) -> str:
    """Digest of the question, of the facts its names stand for, and of the rules.

    Names are replaced by what they resolve to, so that "2x rtx-3090" and two entries, or an alias and its slug, are the
    same question; the facts are the data's version.
    """
    question = findings.request.model_dump(mode="json")
    question["model"] = [findings.model.name, *findings.notes]
    question["rig"]["gpus"] = None
    return ID_PREFIX + _digest([question, RULES_VERSION, data_version(findings)])[:DIGEST_CHARACTERS]


def data_version(findings: Findings) -> str:
    """Digest of the facts that a plan is computed from: the model's content and every figure of every card."""
    return _digest([findings.model.id, findings.rig])


def _digest(content: object) -> str:
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
