"""Text of benchmark programs → measurements that are kept, each accepted or quarantined with the reason."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Final

import orjson
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.contract.measurements import (
    ImportedMeasurements,
    MeasurementDocument,
    MeasurementHints,
    UnreadLine,
)
from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.contract.validation import validate_request
from service.core.problems import InvalidRequest, PlanProblem, UnknownModel
from service.measurements.reading import read_report
from service.measurements.runs import Run
from service.planning.measurements.earlier import judged_among_accepted
from service.planning.measurements.judging import (
    BELIEVED,
    Verdict,
    judged_alone,
    judged_by_plan,
    predicted_of,
    quantity_of,
)
from service.planning.measurements.matched_models import ModelMatch, matched_model, named_model
from service.planning.measurements.matched_rigs import RigMatch, matched_rig
from service.planning.measurements.questions import question_of
from service.planning.measurements.standing import configured, standing_of
from service.planning.planner import Planner
from service.planning.rig import rig_of
from service.store.database import transaction
from service.store.measurements import (
    MeasurementEntry,
    StoredMeasurement,
    keep_measurement,
    kept_measurements,
)
from service.store.revisions import lock_catalogue, move_revision

MOST_RUNS: Final = 5000
SHOWN_UNREAD: Final = 200
ID_PREFIX: Final = "mea_"
_ID_CHARACTERS: Final = 32
_LONGEST_TEXT: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """A run with what it is of, as far as that is known."""

    run: Run
    model: ModelMatch
    rig: RigMatch
    verdict: Verdict
    unused: Verdict = BELIEVED
    request: Mapping[str, Any] | None = None
    configuration: str | None = None
    planned_model: str | None = None


def import_measurements(
    planner: Planner, database: Engine, content: str, hints: MeasurementHints
) -> ImportedMeasurements:
    """Read, match, judge and keep; the same text again changes nothing.

    Raises InvalidRequest for a text without any figure, UnknownGpu and UnknownModel for hints that name none.
    """
    report = read_report(content)
    if not report.runs:
        raise _nothing_read(content, report.unread[0].reason if report.unread else "")
    if len(report.runs) > MOST_RUNS:
        raise InvalidRequest(f"{len(report.runs)} figures are more than the {MOST_RUNS} that are read at once.")
    matcher = _Matcher(planner, hints)
    found = [matcher.matched(run) for run in report.runs]
    with transaction(database) as session:
        # the first statement: what is judged against earlier measurements must see all of them
        lock_catalogue(session, "measurements")
        entries = [_kept_entry(session, one, hints.source) for one in found]
        known = sum(1 for _, is_new in entries if not is_new)
        if known < len(entries):
            move_revision(session, "measurements")
        session.flush()
        kept = kept_measurements(session, [entry.id for entry, _ in entries])
    planner.catalogues.changed()
    statuses = Counter(kept[entry.id].status for entry, _ in entries)
    return ImportedMeasurements(
        formats=list(report.formats),
        accepted=statuses["accepted"],
        quarantined=statuses["quarantined"],
        known=known,
        measurements=[measurement_document(kept[entry.id]) for entry, _ in entries],
        unread=[UnreadLine(line=one.line, text=one.text, reason=one.reason) for one in report.unread[:SHOWN_UNREAD]],
        unread_count=len(report.unread),
    )


def measurement_document(stored: StoredMeasurement) -> MeasurementDocument:
    """A kept measurement as the contract shows it."""
    return MeasurementDocument(
        id=stored.id,
        status=stored.status,
        code=stored.code,
        reason=stored.reason,
        metric=stored.metric,
        value=stored.value,
        stddev=stored.stddev,
        engine=stored.engine,
        backend=stored.backend,
        model=stored.model,
        rig=stored.rig,
        build=stored.build,
        request=stored.request,
        notes=list(stored.facts.get("notes", ())),
        candidates=list(stored.facts.get("candidates", ())),
        source=stored.source,
        added_at=stored.added_at,
    )


def _nothing_read(content: str, reason: str) -> InvalidRequest:
    why = "The text is empty." if not content.strip() else f"No figure was found in the text ({reason or 'no table'})."
    return InvalidRequest(
        f"{why} Send what llama-bench (-o json, jsonl, csv, md or sql), llama-batched-bench or vllm bench printed."
    )


class _Matcher:
    """Matches the runs of one text; what repeats in them is looked up once."""

    def __init__(self, planner: Planner, hints: MeasurementHints) -> None:
        self._planner = planner
        self._hints = hints
        self._models: dict[object, ModelMatch] = {}
        self._rigs: dict[object, RigMatch] = {}

    def matched(self, run: Run) -> Matched:
        """One run with its question, or with the first reason why it is not believed."""
        model, rig = self._model(run), self._rig(run)
        found = Matched(run=run, model=model, rig=rig, verdict=judged_alone(run.figure))
        if found.verdict:
            return found
        missing = [match for match in (model, rig) if match.code]
        if missing:
            reason = " ".join(match.reason for match in missing)
            return replace(found, verdict=Verdict(code=missing[0].code, reason=reason))
        return self._planned(found)

    def _model(self, run: Run) -> ModelMatch:
        seen = run.setup.model
        if run.setup.engine == "vllm":
            return named_model(seen, self._hints.model)
        if seen not in self._models:
            self._models[seen] = matched_model(seen, self._planner.catalogues.models, self._hints.model)
        return self._models[seen]

    def _rig(self, run: Run) -> RigMatch:
        setup = run.setup
        key = (setup.engine, setup.backends, setup.gpus, setup.flags)
        if key not in self._rigs:
            gpus = self._planner.catalogues.gpus
            self._rigs[key] = matched_rig(setup, gpus, self._hints.gpu, self._hints.backend)
        return self._rigs[key]

    def _planned(self, found: Matched) -> Matched:
        """What the planner says of the question: the measurement of something impossible is not believed."""
        model = found.model.name if found.model.row is None else found.model.row.id
        try:
            question = question_of(found.run.setup, found.run.figure, model, found.rig)
        except ValueError as unpredicted:
            return replace(found, unused=Verdict(code="not-predicted", reason=str(unpredicted)))
        try:
            request = validate_request(question)
            plan = self._planner.predicted(request)
            gpus = rig_of(request.rig, self._planner.catalogues.gpus).gpus
        except PlanProblem as refused:
            code = "unknown-model" if isinstance(refused, UnknownModel) else "not-planned"
            unknown = replace(found.model, candidates=tuple(refused.suggestions))
            return replace(found, model=unknown, verdict=Verdict(code=code, reason=refused.detail))
        found = replace(found, planned_model=f"{plan.model.name}:{plan.model.quant}")
        verdict = judged_by_plan(found.run.figure, plan, gpus)
        if verdict:
            return replace(found, verdict=verdict, request=question)
        return replace(found, request=question, configuration=_configuration(found, request, plan))


def _configuration(found: Matched, request: PlanRequest, plan: Plan) -> str | None:
    """Digest of everything that decides the speed but for the build; None without a prediction."""
    estimate = predicted_of(found.run.figure, plan)
    if estimate is None:
        return None
    loadings = standing_of(configured(request, plan), quantity_of(found.run.figure), estimate).loadings
    words = next(what for level, what in loadings if level == "configuration")
    return hashlib.sha256(f"{found.run.figure.metric} {words}".encode()).hexdigest()


def _kept_entry(session: Session, found: Matched, source: str | None) -> tuple[MeasurementEntry, bool]:
    """Keep one; False beside it where it was kept before."""
    entry = _entry(found, source)
    known = kept_measurements(session, [entry.id])
    if known:
        return known[entry.id], False
    if entry.status == "accepted":
        verdict = judged_among_accepted(session, entry)
        if verdict:
            entry = replace(entry, status="quarantined", code=verdict.code, reason=verdict.reason)
    return entry, keep_measurement(session, entry)


def _entry(found: Matched, source: str | None) -> MeasurementEntry:
    """A row for a run: its id is the digest of what was read and of what it was taken for."""
    setup, figure = found.run.setup, found.run.figure
    facts = _facts(found)
    verdict = found.verdict or found.unused
    read = [facts["setup"], facts["figure"], found.request, verdict.code, verdict.reason]
    content = orjson.dumps(read, option=orjson.OPT_SORT_KEYS)
    return MeasurementEntry(
        id=ID_PREFIX + hashlib.sha256(content).hexdigest()[:_ID_CHARACTERS],
        status="quarantined" if found.verdict else "accepted",
        code=verdict.code,
        reason=verdict.reason[:_LONGEST_TEXT],
        metric=figure.metric,
        value=figure.value if isfinite(figure.value) else None,
        stddev=figure.stddev if figure.stddev is not None and isfinite(figure.stddev) else None,
        engine=setup.engine,
        backend=_backend(found),
        model=found.planned_model if found.model.row is None else found.model.row.reference,
        rig=_rig(found),
        build=_build(found),
        configuration=found.configuration,
        request=None if found.request is None else dict(found.request),
        facts=facts,
        source=source,
    )


def _facts(found: Matched) -> dict[str, Any]:
    """What was read, as JSON without numbers that are none."""
    read = {"setup": asdict(found.run.setup), "figure": asdict(found.run.figure)}
    facts: dict[str, Any] = orjson.loads(orjson.dumps(read))
    facts["notes"] = [*found.model.notes, *_build_notes(found)]
    facts["candidates"] = [*found.model.candidates, *found.rig.candidates]
    return facts


def _build_notes(found: Matched) -> Sequence[str]:
    """How old the program is taken for, where it does not say."""
    engine = (found.request or {}).get("engine")
    if engine is None or engine.get("version"):
        return ()
    if engine.get("date"):
        return (f"The build is taken for one of {engine['date']}, the day of the test.",)
    return ("The build is not told: it is taken for the newest known.",)


def _backend(found: Matched) -> str:
    backends: Sequence[str] = [gpu["backend"] or "" for gpu in found.rig.gpus] or list(found.run.setup.backends)
    return "+".join(dict.fromkeys(name.lower() for name in backends))[:40] or "unknown"


def _rig(found: Matched) -> str:
    """The cards by their slugs, else as they were printed, else the processor."""
    setup = found.run.setup
    names = found.rig.slugs or setup.gpus or ((setup.cpu or "a processor",) if not found.rig.code else ())
    counted = Counter(names)
    return ", ".join(f"{count}x {name}" if count > 1 else name for name, count in counted.items())[:400] or "unknown"


def _build(found: Matched) -> str:
    engine = (found.request or {}).get("engine", {})
    setup = found.run.setup
    told = engine.get("version") or engine.get("date") or setup.version or setup.build_commit or setup.tested_at
    return str(told or "unknown")[:80]
