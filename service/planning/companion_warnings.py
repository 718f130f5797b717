"""What to know about a draft or a projector beside the model, as codes with their numbers."""

from collections.abc import Iterator

from service.contract.plan import PlanWarning
from service.core.architectures.hparams import read_hparams
from service.core.timing.speculation import ASSUMED_ACCEPTANCE_RANGE
from service.core.units import GIB
from service.planning.companion_answer import draft_placement
from service.planning.findings import Findings
from service.planning.speculation import acceptance_is_assumed


def companion_warnings(findings: Findings) -> Iterator[PlanWarning]:
    """Every warning about what runs beside the model."""
    yield from _draft_speed(findings)
    yield from _draft_context(findings)
    yield from _projector_scratch(findings)
    yield from _references(findings)


def _draft_speed(findings: Findings) -> Iterator[PlanWarning]:
    draft = findings.companions.draft
    if draft is None or findings.speed.decode is None:
        return
    if findings.speed.speculation is None:
        yield PlanWarning(
            code="draft-speed-not-modelled",
            severity="warning",
            message="Speeds are those without the draft: the arithmetic of a card is not known, on which depends what "
            "verifying several tokens at once takes.",
            numbers={"spec_type": draft.spec_type, "n_max": draft.n_max},
        )
    elif acceptance_is_assumed(findings):
        low, high = ASSUMED_ACCEPTANCE_RANGE
        yield PlanWarning(
            code="draft-acceptance-assumed",
            severity="info",
            message=f"How many drafts are accepted depends on the text: {draft.accepted_fraction:.0%} in turn are "
            f"assumed, as measured of draft layers over prose ({low:.0%}) and code ({high:.0%}), which the range of "
            "decode covers. State engine.draft.acceptance_fraction.",
            numbers={"acceptance_fraction": draft.accepted_fraction, "low_fraction": low, "high_fraction": high},
        )


def _draft_context(findings: Findings) -> Iterator[PlanWarning]:
    draft, placement = findings.companions.draft, draft_placement(findings)
    if draft is None or draft.model is None or placement is None:
        return
    trained, used = read_hparams(draft.model).n_ctx_train, placement.ctx.n_ctx_seq
    if used > trained:
        yield PlanWarning(
            code="draft-context-beyond-training",
            severity="warning",
            message=f"The draft model has the model's context of {used:,} tokens per stream and was trained for "
            f"{trained:,}: beyond that its drafts are seldom accepted.",
            numbers={"context_tokens": used, "trained_context_tokens": trained},
        )


def _projector_scratch(findings: Findings) -> Iterator[PlanWarning]:
    if findings.companions.projector is not None:
        placement = next(each for each in findings.placement.companions if each.kind == "mmproj")
        size_bytes = sum(part.weights.weights_bytes for part in (*placement.devices, placement.host))
        yield PlanWarning(
            code="mmproj-scratch-not-counted",
            severity="warning",
            message=f"The projector's weights of {size_bytes / GIB:.2f} GiB are counted; the memory it computes with, "
            "which depends on the size of the images, is not: keep some of its card free.",
            numbers={"weights_bytes": size_bytes},
        )


def _references(findings: Findings) -> Iterator[PlanWarning]:
    for field, note in findings.companion_notes:
        yield PlanWarning(code="model-reference", severity="info", message=note, numbers={"field": field})
