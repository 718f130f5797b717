"""Graphs that are kept between processes: never another answer, and never a plan that fails because of them."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from service.core.engines.llamacpp.compute import compute_buffers, reserve
from service.core.engines.llamacpp.compute.graph_inputs import graph_inputs
from service.core.engines.llamacpp.compute.graph_memory import TypesMatterError
from service.core.engines.llamacpp.compute.kept_graphs import keep_graphs_in
from service.planning.kept_graphs import keys
from service.planning.kept_graphs.store import DiskGraphs
from service.store.graph_file import NAME, GraphFile
from tests.core.engines.llamacpp.compute.architectures import catalogue_models, small_models
from tests.core.engines.llamacpp.compute.questions import question
from tests.models import load_model
from tests.planning.kept_graphs.asking import CASES, asked, buffers, nothing_is_built
from tests.planning.kept_graphs.conftest import Begin, forget

SHORT, LONG = 4096, 32768


@pytest.mark.parametrize("case", CASES, ids=str)
def test_small_models_get_the_buffers_that_they_get_without(case: dict[str, object], begin: Begin) -> None:
    """For every small architecture: nothing kept, kept by this process, by an earlier one, and for another length."""
    forget()
    alone = {name: (buffers(model, case, SHORT), buffers(model, case, LONG)) for name, model in small_models().items()}
    begin()
    first = {name: buffers(model, case, SHORT) for name, model in small_models().items()}
    begin()
    again = {name: (buffers(model, case, SHORT), buffers(model, case, LONG)) for name, model in small_models().items()}
    assert first == {name: short for name, (short, _) in alone.items()}
    assert again == alone
    assert any(alone.values())


def test_models_of_the_catalogue_get_the_buffers_that_they_get_without(begin: Begin) -> None:
    """For every architecture of the catalogue, and nothing is built the second time, for either length."""
    forget()
    models = catalogue_models().values()
    alone = [(buffers(model, CASES[0], SHORT), buffers(model, CASES[0], LONG)) for model in models]
    begin()
    assert [buffers(model, CASES[0], SHORT) for model in models] == [short for short, _ in alone]
    begin()
    with nothing_is_built():
        assert [(buffers(model, CASES[0], SHORT), buffers(model, CASES[0], LONG)) for model in models] == alone


def test_a_length_that_is_new_needs_no_graph(begin: Begin) -> None:
    """What the buffers are made of is kept as well."""
    forget()
    alone = compute_buffers(asked(LONG))
    begin()
    compute_buffers(asked(SHORT))
    begin()
    with nothing_is_built():
        assert compute_buffers(asked(LONG)) == alone


def test_inputs_that_do_not_tell_enough_are_known_as_such(begin: Begin) -> None:
    """Where a device copies matrices of the host also for single tokens, the graph without their types is not tried."""
    model = load_model("qwen3-30b-a3b:Q4_K_M")
    case = question(model, backends=("cuda", "cuda"), parallel=40, context_tokens=40960, on_host=20)
    forget()
    with pytest.raises(TypesMatterError):
        reserve._generation(graph_inputs(case, symbolic=True, types_matter=False))
    alone = compute_buffers(case)
    begin()
    assert compute_buffers(case) == alone
    begin()
    with nothing_is_built():
        assert compute_buffers(case) == alone


def test_quants_of_one_shape_share_what_is_kept(begin: Begin) -> None:
    """Whichever of them was the first in each process."""
    small, large = (question(load_model(f"llama-3.2-3b:{quant}"), backends=("cuda",)) for quant in ("Q4_K_M", "Q8_0"))
    begin()
    found = compute_buffers(small)
    begin()
    with nothing_is_built():
        assert compute_buffers(large) == found


def test_another_program_reads_nothing_of_this_one(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of any source of the core is another digest, and so another name for every graph."""
    begin()
    found = compute_buffers(asked())
    begin()
    monkeypatch.setattr(keys, "rules_digest", lambda: "those of tomorrow")
    with nothing_is_built(), pytest.raises(AssertionError, match="built"):
        compute_buffers(asked())
    assert compute_buffers(asked()) == found


@pytest.mark.parametrize("column", ["pieces", "sizes"])
@pytest.mark.parametrize("damage", [b"", b"\0" * 100, None], ids=["empty", "zeros", "cut"])
def test_a_damaged_row_is_built_again(column: str, damage: bytes | None, begin: Begin, tmp_path: Path) -> None:
    """It is found by its checksum, and the row that takes its place is read by the next process."""
    table = "graphs" if column == "pieces" else "sizes"
    begin()
    found = compute_buffers(asked())
    begin()
    with closing(sqlite3.connect(tmp_path / "cache" / NAME, isolation_level=None)) as database:
        kept = database.execute(f"SELECT {column} FROM {table}").fetchall()  # noqa: S608 - names of this file
        database.execute(
            f"UPDATE {table} SET {column} = coalesce(?, substr({column}, 1, length({column}) - 1))",  # noqa: S608
            (damage,),
        )
        if column == "pieces":
            database.execute("DELETE FROM sizes")
    assert compute_buffers(asked()) == found
    begin()
    with nothing_is_built():
        assert compute_buffers(asked()) == found
    with closing(sqlite3.connect(tmp_path / "cache" / NAME)) as database:
        assert database.execute(f"SELECT {column} FROM {table}").fetchall() == kept  # noqa: S608


def no_database(path: Path) -> None:
    path.write_bytes(b"no database " * 10_000)


def torn(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100:] = b"\xa5" * (len(content) - 100)
    path.write_bytes(content)


def of_another(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        for table in ("graphs", "sizes"):
            database.execute(f"CREATE TABLE {table} (name TEXT)")


@pytest.mark.parametrize(("spoil", "is_begun_anew"), [(no_database, True), (torn, True), (of_another, False)])
def test_a_spoilt_file_costs_only_time(
    spoil: Callable[[Path], None],
    is_begun_anew: bool,
    begin: Begin,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is deleted and begun anew where it is damaged, left alone where it is another's, and that is said once."""
    begin()
    found = compute_buffers(asked())
    begin()
    spoil(tmp_path / "cache" / NAME)
    with caplog.at_level(logging.WARNING):
        begin()
        assert [compute_buffers(asked(tokens)) for tokens in (8192, 8192)] == [found] * 2
        begin()
        assert compute_buffers(asked()) == found
    said = [record for record in caplog.records if "kept graphs" in record.message]
    assert len(said) == (1 if is_begun_anew else 2), said
    if is_begun_anew:
        begin()
        with nothing_is_built():
            assert compute_buffers(asked()) == found


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file as nobody should."""
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        yield


def test_a_locked_file_is_not_waited_for_long(begin: Begin, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Plans are made without, and after some attempts it is left alone, which is said once."""
    begin()
    found = [compute_buffers(asked(1024 * number)) for number in range(1, 9)]
    store = begin()
    path = tmp_path / "cache" / NAME
    with locked(path), caplog.at_level(logging.WARNING):
        for number, expected in enumerate(found, 1):
            forget()
            assert compute_buffers(asked(1024 * number)) == expected
        store.writes.finish()
    assert len([record for record in caplog.records if "is not read any more" in record.message]) == 1


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where there is a file in its place, as where there is no right to write."""
    forget()
    found = compute_buffers(asked())
    (tmp_path / "file").write_text("in the way")
    store = DiskGraphs(GraphFile(tmp_path / "file" / "cache", 1 << 28))
    keep_graphs_in(store)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            forget()
            assert compute_buffers(asked()) == found
            store.writes.finish()
    assert [record.message.partition("kept graphs")[2].split()[1:4] for record in caplog.records] == [
        ["is", "not", "written"]
    ]


def test_threads_share_a_store(begin: Begin) -> None:
    """Many threads that ask the same and other things at once get what one alone gets."""
    forget()
    alone = [compute_buffers(asked(1024 * number)) for number in range(1, 9)]
    begin()
    found: list[list[object]] = []

    def ask() -> None:
        found.append([compute_buffers(asked(1024 * number)) for number in range(1, 9)])

    for _ in range(2):
        threads = [Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        begin()
    assert found == [alone] * 24
