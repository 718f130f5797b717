"""Public speed measurements (tests/speed) as questions that are placed, and what a calibration says of them."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from service.contract.engine import LlamaCppEngine
from service.contract.validation import validate_request
from service.core.engines.llamacpp.checkpoints import checkpoints_of
from service.core.engines.llamacpp.drafting import draft_work
from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.work import work_of
from service.core.problems import PlanProblem
from service.core.speed import Assumptions
from service.core.timing.constants import Calibration
from service.core.timing.decode import decode
from service.core.timing.generations import generation_label
from service.core.timing.prefill import prefill_s
from service.core.timing.processor import Processors, processors
from service.core.timing.speculation import Speculation, speculate
from service.core.timing.work import Work
from service.core.types import Rig
from service.planning.catalogues import BuiltinCatalogues
from service.planning.companions import beside_of
from service.planning.engines.llamacpp import workload_of
from service.planning.rig import rig_of
from service.planning.settings import settings_of
from service.planning.sources import Sources

SPEED = Path(__file__).parent / "speed"
CASES = (SPEED / "cases.jsonl", SPEED / "speculation.jsonl")
BUILD_OPTIONS = SPEED / "build_options.json"

# Measured on a pull request before it was merged: the first build that has it stands for what was run.
MERGED: Mapping[tuple[str | None, str | None], str] = {("tensor", "2026-02"): "2026-04"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpeedCase:
    """One measurement: where it comes from, what was asked, and what the engine does for it."""

    id: str
    group: str
    metric: str
    value: float
    quality: str
    source: str
    reference: str
    depth_tokens: int
    rig: Rig
    work: Work
    copies_s: float = 0.0
    speculates: Callable[[Processors], Speculation | None] | None = None

    @property
    def backend(self) -> str:
        """Backend it ran on."""
        return self.group.split("/")[1]

    @property
    def split(self) -> str:
        """One card, layer, row, tensor, or the processor alone."""
        return self.group.split("/")[2]

    @property
    def cards(self) -> str:
        """Types of its cards, by which folds are made."""
        return "+".join(sorted({gpu.slug for gpu in self.rig.gpus})) or "cpu"

    @property
    def generation(self) -> str:
        """Generation of its first card."""
        return (generation_label(self.rig.gpus[0]) or "unknown") if self.rig.gpus else "processor"

    def predicted(self, calibration: Calibration) -> float | None:
        """What the speed model says of it."""
        rates = processors(self.rig, Assumptions(), calibration)
        if self.speculates is not None:
            speculation = self.speculates(rates)
            return None if speculation is None else speculation.gain
        if self.metric == "prefill_tokens_per_s":
            prompt_s = prefill_s(self.work, rates)
            return self.work.prompt_tokens / prompt_s if prompt_s else None
        step = decode(self.work, rates, Assumptions())
        if step is None:
            return None
        if self.metric == "ttft_s":
            prompt_s = prefill_s(self.work, rates)
            return prompt_s + step.step_s + self.copies_s if prompt_s else None
        return (self.work.streams if self.metric.startswith("aggregate") else 1) / step.step_s


@cache
def speed_cases(engine: str = "llama.cpp") -> tuple[SpeedCase, ...]:
    """All measurements of an engine that can be planned."""
    return tuple(case for case, _ in _placed(engine) if case is not None)


@cache
def refused_cases(engine: str = "llama.cpp") -> Mapping[str, str]:
    """Measurements that cannot be planned, and why."""
    return {id_: why for case, (id_, why) in _placed(engine) if case is None}


@cache
def _placed(engine: str) -> tuple[tuple[SpeedCase | None, tuple[str, str]], ...]:
    return tuple(_each(engine))


def _each(engine: str) -> Iterator[tuple[SpeedCase | None, tuple[str, str]]]:
    for line in [line for file in CASES for line in file.read_text("utf-8").splitlines()]:
        row = json.loads(line)
        if not row["group"].startswith(engine):
            continue
        try:
            yield _case(row), (row["id"], "")
        except PlanProblem as problem:
            yield None, (row["id"], problem.detail)


def _case(row: Mapping[str, Any]) -> SpeedCase:
    choice = placed(row["request"], day=row["date"])
    checkpoints = checkpoints_of(choice)
    workload, threads = choice.question.workload, _threads(row, choice.question.rig.host.cpu)
    work = replace(work_of(choice), tuned=_tuned(row["source"]), threads=threads)
    return SpeedCase(
        id=row["id"],
        group=row["group"],
        metric=row["metric"],
        value=row["value"],
        quality=row["quality"],
        source=row["source"],
        reference=row["request"]["model"],
        depth_tokens=workload.cached_tokens + workload.prompt_tokens + workload.output_tokens,
        rig=_with_memory(choice.question.rig),
        work=work,
        copies_s=checkpoints.copies_s if checkpoints else 0.0,
        speculates=_speculation(choice, work),
    )


def _speculation(choice: Choice, work: Work) -> Callable[[Processors], Speculation | None] | None:
    """A step with the draft of a measurement, None without one."""
    drafts, draft = draft_work(choice, work), choice.question.companions.draft
    if drafts is None or draft is None or draft.acceptance_fraction is None:
        return None
    return partial(
        speculate,
        work,
        drafts.drafting,
        assumptions=Assumptions(),
        tokens=draft.n_max,
        acceptance_fraction=draft.acceptance_fraction,
    )


def _threads(row: Mapping[str, Any], cpu: str | None) -> int | None:
    """Threads that a source states, None where it says nothing."""
    stated = _stated()["threads"]
    found = stated.get(cpu, {}).get(row["metric"]) if row["source"] == stated["source"] else None
    return None if found is None else int(found)


def _with_memory(rig: Rig) -> Rig:
    """The rig with the memory of its processor, where that is on the chip."""
    bandwidth = _stated()["ram_bandwidth_bytes_per_s"].get(rig.host.cpu)
    return rig if bandwidth is None else replace(rig, host=replace(rig.host, ram_bandwidth_bytes_per_s=bandwidth))


def _tuned(source: str) -> bool | None:
    """Whether a build was made with 16-bit floats before that was the default, None where nothing is said."""
    return True if any(f"/{file}" in source for file in _sixteen_bit_files()) else None


@cache
def _sixteen_bit_files() -> tuple[str, ...]:
    return tuple(_stated()["GGML_SYCL_F16"]["on"])


@cache
def _stated() -> Mapping[str, Any]:
    return dict(json.loads(BUILD_OPTIONS.read_text("utf-8")))


def dated(stated: Mapping[str, Any], *, day: str | None) -> Mapping[str, Any]:
    """A request whose build is that of the day on which it was measured, where only the build's month is stated."""
    engine = dict(stated["engine"])
    month = engine.get("date")
    if month is not None and day is not None and day.startswith(month):
        engine["date"] = day
    engine["date"] = MERGED.get((engine.get("split_mode"), month), engine.get("date"))
    return {**stated, "engine": engine}


def placed(stated: Mapping[str, Any], *, day: str | None = None) -> Choice:
    """The choice that a fully stated request leaves, without compute buffers, which speed does not depend on.

    day: on which it was measured, which may be more exact than the build's month.
    """
    request = validate_request(dated(stated, day=day))
    sources = _sources()
    workload = workload_of(request.workload)
    if not isinstance(request.engine, LlamaCppEngine):
        raise TypeError(f"{request.engine.name} is not llama.cpp")
    settings = settings_of(request.engine)
    if settings.n_gpu_layers is None:
        settings = replace(settings, n_gpu_layers="all")
    model, _ = sources.model(request.model)
    rig = rig_of(request.rig, sources.catalogues.gpus)
    companions = beside_of(request.engine, model, sources.model).companions
    choice = Question.of(model, rig, workload, companions).hold(settings, workload.context_tokens or 4096)
    return replace(choice, question=replace(choice.question, workload=workload))


@cache
def _sources() -> Sources:
    return Sources(BuiltinCatalogues())
