"""What the rules answer today, as digests beside the versions of the rules; `python -m tests.planning.rules_digests`.

The command writes rules_digests.json anew, unless an answer changed under an unchanged version: move RULES_VERSION of
that engine first, in service/planning/identity.py for llama.cpp and service/planning/engines/vllm/findings.py for vLLM.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from service.contract.validation import validate_request
from service.core.problems import PlanProblem
from service.planning.engines.vllm.findings import RULES_VERSION as VLLM_RULES_VERSION
from service.planning.identity import RULES_VERSION
from tests.planner import builtin_planner

QUESTIONS: Final = Path(__file__).with_name("rules_questions.jsonl")
DIGESTS: Final = Path(__file__).with_name("rules_digests.json")
VERSIONS: Final[Mapping[str, str]] = {"llama.cpp": RULES_VERSION, "vllm": VLLM_RULES_VERSION}
# the version itself, and sentences, which say in words what other fields say in figures
LEFT_OUT: Final = frozenset(
    {"assumptions", "checks", "explanation", "id", "label", "meaning", "message", "rules_version", "what"}
)
# the last bits of an exponential or a power are the C library's own
SIGNIFICANT_DIGITS: Final = 6
_CHARACTERS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One question: digests of it, of the model and cards behind it, and of its answer; what is refused has no data."""

    engine: str
    question: str
    data: str
    answer: str


def questions() -> list[Any]:
    """The fixed questions, of both engines."""
    return [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]


def answered(question: Any) -> Answered:
    """A question with today's answer, or with the kind of problem that it is refused with."""
    engine = question.get("engine", {}).get("name", "llama.cpp")
    try:
        found = builtin_planner().answer(validate_request(question))
        data, answer = found.data_version, json.loads(found.plan.model_dump_json())
    except PlanProblem as refused:
        data, answer = "", {"problem": refused.slug}
    return Answered(engine=engine, question=digest(question), data=data[:_CHARACTERS], answer=digest(steady(answer)))


def digest(content: Any) -> str:
    """Digest of JSON."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_CHARACTERS]


def steady(content: Any) -> Any:
    """JSON without what may differ although the same rules were followed, on this machine or another."""
    if isinstance(content, dict):
        return {key: steady(value) for key, value in content.items() if key not in LEFT_OUT}
    if isinstance(content, list):
        return [steady(value) for value in content]
    return f"{content:.{SIGNIFICANT_DIGITS}g}" if isinstance(content, float) else content


def committed() -> tuple[dict[str, str], list[Answered]]:
    """The versions and digests of the file."""
    held = json.loads(DIGESTS.read_text("utf-8"))
    return held["versions"], [Answered(**row) for row in held["answers"]]


def unversioned(
    earlier: Sequence[Answered],
    now: Sequence[Answered],
    versions: Mapping[str, str],
    versions_now: Mapping[str, str] = VERSIONS,
) -> list[int]:
    """Which answers changed though neither their question, nor its model and cards, nor the version did; from 0."""
    before = {(one.engine, one.question): one for one in earlier}
    return [
        at
        for at, one in enumerate(now)
        if (held := before.get((one.engine, one.question))) is not None
        and (held.data, versions.get(one.engine)) == (one.data, versions_now[one.engine])
        and held.answer != one.answer
    ]


def write() -> int:
    """Write today's digests; an exit status."""
    now = [answered(question) for question in questions()]
    versions, earlier = committed() if DIGESTS.is_file() else ({}, [])
    changed = unversioned(earlier, now, versions)
    if changed:
        lines = [QUESTIONS.read_text("utf-8").splitlines()[at] for at in changed]
        sys.stderr.write("\n".join([*lines, "", "These answers changed: move RULES_VERSION, then write again.", ""]))
        return 1
    held = {"versions": dict(VERSIONS), "answers": [asdict(one) for one in now]}
    DIGESTS.write_text(json.dumps(held, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(write())
