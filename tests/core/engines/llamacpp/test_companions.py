"""What may run beside a model."""

import pytest

from service.core.engines.llamacpp.companions import ALONE, Companions, Draft, Projector, check_companions
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.problems import Contradiction, Unsupported

OWN_LAYERS = Companions(draft=Draft(spec_type="draft-mtp"))
PROJECTOR = Companions(projector=Projector(weights_bytes=10**9))


@pytest.mark.parametrize(("companions", "field"), [(OWN_LAYERS, "engine.draft"), (PROJECTOR, "engine.mmproj")])
def test_llama_bench_runs_nothing_beside_a_model(companions: Companions, field: str) -> None:
    """It has no such flags."""
    with pytest.raises(Contradiction, match="llama-bench") as refused:
        check_companions(companions, LlamaCppSettings(tool="llama-bench"))
    assert field in refused.value.fields
    check_companions(ALONE, LlamaCppSettings(tool="llama-bench"))


@pytest.mark.parametrize(
    ("companions", "before", "since"),
    [(OWN_LAYERS, "2026-05-15", "2026-05-16"), (PROJECTOR, "2025-05-08", "2025-05-09")],
)
def test_earlier_builds_are_refused(companions: Companions, before: str, since: str) -> None:
    """Before the server worked as it does now, the rules here do not hold."""
    with pytest.raises(Unsupported, match="later"):
        check_companions(companions, LlamaCppSettings(date=before))
    check_companions(companions, LlamaCppSettings(date=since))
    check_companions(companions, LlamaCppSettings())


def test_draft_layers_are_loaded_for_mtp_alone() -> None:
    """A draft model of another kind leaves the model's own draft layers on the disk."""
    assert OWN_LAYERS.load_mtp
    assert not Companions(draft=Draft(spec_type="draft-simple")).load_mtp
    assert not ALONE.load_mtp
