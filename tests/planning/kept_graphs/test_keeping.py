"""Who keeps graphs: every process that plans, as its settings say."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.contract.validation import validate_request
from service.core.engines.llamacpp.compute import kept_graphs
from service.core.engines.llamacpp.compute.kept_graphs import NOTHING, keep_graphs_in
from service.planning.batch.stored import StoredPlans, stored_planner
from service.planning.kept_graphs import cache_folder, keep_graphs, write_kept_graphs
from service.settings import Settings
from service.store.graph_file import NAME, contents
from tests.databases import Databases, migrate_and_seed
from tests.planning.kept_graphs.conftest import forget

QUESTION = {
    "model": "llama-3.2-3b:Q4_K_M",
    "rig": {"gpus": ["rtx-3090"]},
    "workload": {"context_tokens": 8192},
    "engine": {"n_ubatch": 352},
}


@pytest.fixture
def chosen(sqlite: Databases, tmp_path: Path) -> Iterator[Settings]:
    """Settings of a service that keeps graphs in a folder of its own."""
    yield Settings(
        database_url=sqlite.copy_of("seeded", migrate_and_seed),
        model_hosts=(),
        cache_folder=tmp_path / "cache",
        cache_bytes=1 << 24,
    )
    keep_graphs_in(NOTHING)
    forget()


def kept(settings: Settings) -> int:
    """Graphs in the folder of the settings."""
    write_kept_graphs()
    assert settings.cache_folder is not None
    found = contents(settings.cache_folder / NAME)
    return found.graphs if found is not None else 0


def test_the_service_keeps_graphs(chosen: Settings) -> None:
    """Those of a request over HTTP."""
    with TestClient(create_app(chosen)) as client:
        forget()
        assert client.post("/plan", json=QUESTION).status_code == 200
        assert kept(chosen) > 0


@pytest.mark.parametrize("made", [StoredPlans, stored_planner])
def test_processes_of_batches_keep_graphs(made: type[StoredPlans], chosen: Settings) -> None:
    """Those of a service's large tables, and those of workers."""
    plans = made(chosen)
    forget()
    assert plans.plan(validate_request(QUESTION)).verdict == "fits"
    assert kept(chosen) > 0


def test_nothing_is_kept_where_there_is_no_room(tmp_path: Path) -> None:
    """RIGFIT_CACHE_BYTES=0 switches it off."""
    keep_graphs(tmp_path, 0)
    assert kept_graphs._store is NOTHING
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the conventions of the system, unless the settings name one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder(None).name == "rigfit"
    assert cache_folder(tmp_path / "stated") == tmp_path / "stated"
