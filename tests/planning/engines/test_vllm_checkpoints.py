"""Checkpoints that users import are planned for as those of the catalogue are."""

import pytest
from sqlalchemy import Engine

from service.checkpoints.documents import checkpoint_of
from service.contract.validation import validate_request
from service.core.problems import Unsupported
from service.planning.catalogues import StoredCatalogues
from service.planning.imports import keep_model
from service.planning.planner import Planner
from tests.core.engines.vllm.configs import CONFIGS
from tests.planner import ask


def question(model: str, engine: str = "vllm") -> dict[str, object]:
    """A model on one large card."""
    rig = {"gpus": [{"gpu": {"name": "card", "vram_bytes": 80 * 2**30, "compute_capability": "9.0"}}]}
    return {"model": model, "rig": rig, "workload": {"context_tokens": 8192}, "engine": {"name": engine}}


def test_an_imported_checkpoint_is_planned_by_its_id_and_its_alias(database: Engine) -> None:
    """From its config.json alone, with the weights and the cache of the catalogue's model."""
    catalogues = StoredCatalogues(database, refresh_s=0)
    content = checkpoint_of(CONFIGS["qwen3-32b"], ())
    source = "https://huggingface.co/Qwen/Qwen3-32B/resolve/main/config.json"
    kept = keep_model(catalogues, database, content, name="Qwen3-32B", source=source, alias="mine")
    planner = Planner(catalogues)
    by_id, by_alias = (planner.plan(validate_request(question(each))) for each in (kept.id, "mine"))
    assert by_id.devices == by_alias.devices
    assert by_id.command.argv[2] == "Qwen/Qwen3-32B"
    there = ask("qwen3-32b:BF16", *question("")["rig"]["gpus"], context_tokens=8192, engine={"name": "vllm"})  # type: ignore[index]
    assert by_id.devices[0].weights_bytes == pytest.approx(there.devices[0].weights_bytes, rel=0.001)
    assert by_id.devices[0].kv_bytes == pytest.approx(there.devices[0].kv_bytes, rel=0.01)


def test_llama_cpp_says_which_engine_loads_a_checkpoint(database: Engine) -> None:
    """The way out is the other engine."""
    catalogues = StoredCatalogues(database, refresh_s=0)
    kept = keep_model(
        catalogues, database, checkpoint_of(CONFIGS["llama-3.1-8b"], ()), name="Llama", source=None, alias=None
    )
    with pytest.raises(Unsupported, match=r"ask for engine\.name vllm"):
        Planner(catalogues).plan(validate_request(question(kept.id, "llama.cpp")))
