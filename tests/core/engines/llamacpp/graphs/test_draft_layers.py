"""Contexts of draft (MTP) layers against llama.cpp's own allocations."""

import pytest

from service.core.engines.llamacpp.placement import DevicePlacement, HostPlacement, place
from service.core.engines.llamacpp.placement_inputs import ModelUse
from service.core.problems import Unsupported
from service.core.types import Workload
from tests.golden_rows import GoldenRow, golden_rows
from tests.rigs import rpc_rig
from tests.shapes import LLAMA, model

MODELS = tuple(dict.fromkeys(row.model_name for row in golden_rows("graphs_draft_layers")))
PARTS = ("model_bytes", "context_bytes", "compute_bytes")


def planned(row: GoldenRow) -> list[tuple[int, ...]]:
    """Weights, cache and compute buffer of every device and, last, of the host."""
    workload = Workload(context_tokens=row.config["ctx"], parallel=row.config.get("n_parallel", 1))
    use = ModelUse(role="mtp", load_mtp=True)
    placed = place(row.model, rpc_rig(row.n_devices), row.settings(), workload, use=use)
    parts: list[DevicePlacement | HostPlacement] = [*placed.devices, placed.host]
    return [(part.weights_bytes, part.kv_bytes, part.compute_bytes) for part in parts]


@pytest.mark.parametrize("name", MODELS)
def test_draft_layers_need_what_llamacpp_allocates(name: str) -> None:
    """Every architecture whose draft layers llama.cpp runs, in seventeen configurations, to the byte."""
    rows = [row for row in golden_rows("graphs_draft_layers") if row.model_name == name]
    wrong = [
        str(row)
        for row in rows
        if planned(row)
        != [tuple(part[key] for key in PARTS) for part in (*row.observed["devices"], row.observed["host"])]
    ]
    assert len(rows) == 17
    assert wrong == []


def test_other_draft_layers_are_refused() -> None:
    """A graph that is not known is said to be that, with those that are."""
    ling = model("bailingmoe2", {**LLAMA, "nextn_predict_layers": 1})
    settings = golden_rows("graphs_draft_layers")[0].settings()
    with pytest.raises(Unsupported, match="qwen35moe") as refused:
        place(ling, rpc_rig(1), settings, Workload(context_tokens=4096), use=ModelUse(role="mtp", load_mtp=True))
    assert refused.value.fields == ("engine.draft",)
