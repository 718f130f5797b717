"""The file of kept graphs."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from service.store.graph_file import GraphFile, GraphRow, SizesRow, contents


def test_a_file_stays_within_its_room(tmp_path: Path) -> None:
    """Graphs that were used least recently go, those just used stay, and no size is left without its graph."""
    file, most_bytes = GraphFile(tmp_path, 1 << 20), 1 << 20
    graphs = [GraphRow(number.to_bytes(20), bytes([number]) * 5000) for number in range(250)]
    for now, graph in enumerate(graphs):
        file.keep([graph], [SizesRow(graph.key, b"counts", b"sizes")], [graphs[0].key], now)
    file.close()
    with closing(sqlite3.connect(file.path)) as database:
        kept = [key for (key,) in database.execute("SELECT key FROM graphs ORDER BY used_at")]
        sizes = {key for (key,) in database.execute("SELECT key FROM sizes")}
    assert 50 < len(kept) < 200
    assert set(kept) == sizes == {graphs[0].key} | {graph.key for graph in graphs[251 - len(kept) :]}
    assert file.path.stat().st_size <= most_bytes


def test_rows_are_kept_all_or_none(tmp_path: Path) -> None:
    """Of writes that fail in the middle nothing stays."""
    file = GraphFile(tmp_path, 1 << 20)
    file.keep([GraphRow(b"first", b"pieces")], [SizesRow(b"first", b"counts", b"sizes")], [], 1)
    with pytest.raises(sqlite3.IntegrityError, match="NOT NULL"):
        file.keep([GraphRow(b"second", b"pieces"), GraphRow(b"third", None)], [], [], 2)  # type: ignore[arg-type]
    assert file.pieces(b"second") is None
    assert file.pieces(b"first") == b"pieces"
    assert file.known(b"first") == (1, [(b"counts", b"sizes")])
    file.close()


def test_a_file_is_begun_by_the_first_who_writes(tmp_path: Path) -> None:
    """Who reads before finds nothing and makes nothing; who deletes it deletes all of it."""
    file = GraphFile(tmp_path / "deep" / "folder", 1 << 20)
    assert (file.known(b"key"), file.pieces(b"key"), contents(file.path)) == (None, None, None)
    assert list(tmp_path.iterdir()) == []
    file.keep([GraphRow(b"key", b"pieces")], [], [], 1)
    assert file.known(b"key") == (1, [])
    found = contents(file.path)
    assert found is not None
    assert found.graphs == 1
    assert found.size_bytes > 4096
    file.discard()
    assert list(file.path.parent.iterdir()) == []
    assert file.known(b"key") is None


def test_a_file_that_is_just_being_begun_holds_nothing(tmp_path: Path) -> None:
    """It is there a moment before its tables: whoever reads in between looks again, and finds what comes."""
    reader, writer = GraphFile(tmp_path, 1 << 20), GraphFile(tmp_path, 1 << 20)
    with closing(sqlite3.connect(reader.path)) as begun:
        begun.execute("PRAGMA journal_mode = WAL")
        begun.execute("CREATE TABLE graphs (key BLOB PRIMARY KEY, used_at INTEGER NOT NULL, pieces BLOB NOT NULL)")
    assert (reader.known(b"key"), reader.pieces(b"key")) == (None, None)
    found = contents(reader.path)
    assert found is not None
    assert found.graphs == 0
    writer.keep([GraphRow(b"key", b"pieces")], [SizesRow(b"key", b"counts", b"sizes")], [], 1)
    assert reader.pieces(b"key") == b"pieces"
    assert reader.known(b"key") == (1, [(b"counts", b"sizes")])
    reader.close()
    writer.close()
