"""Graphs that were built, as rows of an SQLite file that many processes share.

No part of the database: it can be deleted at any time, is never migrated (another layout gets another name), and needs
none of the machinery of databases, so that a plan of the command line starts at once.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

NAME: Final = "graphs-1.sqlite3"

# what readers wait for one who begins the file, what writers wait for each other
_READ_WAIT_S: Final = 0.05
_WRITE_WAIT_S: Final = 0.5
_PAGE_BYTES: Final = 4096
# above this share of what is allowed the least recently used go, down to the second
_FULL_FRACTION, _ROOMY_FRACTION = 0.75, 0.5

# a row that is lost is built again: nothing here is worth waiting for a disk
_LAYOUT: Final = """
PRAGMA journal_mode = WAL;
PRAGMA journal_size_limit = 4194304;
CREATE TABLE IF NOT EXISTS graphs (key BLOB PRIMARY KEY, used_at INTEGER NOT NULL, pieces BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS graphs_by_use ON graphs (used_at);
CREATE TABLE IF NOT EXISTS sizes (key BLOB, counts BLOB, sizes BLOB NOT NULL, PRIMARY KEY (key, counts)) WITHOUT ROWID;
"""
_LAST_TABLE: Final = "sizes"


class GraphRow(NamedTuple):
    """What the buffers of a graph are made of."""

    key: bytes
    pieces: bytes


class SizesRow(NamedTuple):
    """The buffers of a graph for some counts of cells."""

    key: bytes
    counts: bytes
    sizes: bytes


class Known(NamedTuple):
    """When a graph was used last, in seconds of Unix time, and its sizes by counts."""

    used_at_s: int
    sizes: list[tuple[bytes, bytes]]


class GraphFile:
    """The file in a folder, which need not be there yet; one thread at a time.

    Everything raises sqlite3.Error or OSError where the file cannot be used.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.path = folder / NAME
        self._most_bytes = most_bytes
        self._reading: sqlite3.Connection | None = None
        self._writing: sqlite3.Connection | None = None

    def known(self, key: bytes) -> Known | None:
        """What is kept of a graph besides its pieces; None where it is not."""
        reading = self._reader()
        if reading is None:
            return None
        found = reading.execute(
            "SELECT CAST(used_at AS INTEGER), CAST(counts AS BLOB), CAST(sizes AS BLOB) "
            "FROM graphs LEFT JOIN sizes USING (key) WHERE graphs.key = ?",
            (key,),
        ).fetchall()
        return Known(found[0][0], [row[1:] for row in found if row[1] is not None]) if found else None

    def pieces(self, key: bytes) -> bytes | None:
        """The pieces of a graph; None where it is not kept."""
        reading = self._reader()
        found = reading and reading.execute("SELECT CAST(pieces AS BLOB) FROM graphs WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None

    def keep(self, graphs: Iterable[GraphRow], sizes: Iterable[SizesRow], used: Iterable[bytes], now_s: int) -> None:
        """Keep rows in the place of those of the same key, all or none; used: keys of graphs that were read."""
        writing = self._writer()
        writing.execute("BEGIN IMMEDIATE")
        try:
            writing.executemany(
                "INSERT INTO graphs VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET used_at = excluded.used_at, pieces = excluded.pieces",
                [(row.key, now_s, row.pieces) for row in graphs],
            )
            writing.executemany("INSERT OR REPLACE INTO sizes VALUES (?, ?, ?)", sizes)
            writing.executemany("UPDATE graphs SET used_at = ? WHERE key = ?", [(now_s, key) for key in used])
            self._make_room(writing)
            writing.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                writing.execute("ROLLBACK")
            raise

    def forget_connections(self) -> None:
        """Leave the connections to the process that this one was forked from."""
        _INHERITED.extend(each for each in (self._reading, self._writing) if each is not None)
        self._reading = self._writing = None

    def discard(self) -> None:
        """Delete the file; processes that have it open go on with what they have."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        for connection in (self._reading, self._writing):
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()
        self._reading = self._writing = None

    def _reader(self) -> sqlite3.Connection | None:
        """A connection once there is a file whose first writer has laid it out."""
        if self._reading is None and self.path.is_file():
            reading = self._connected("rw", _READ_WAIT_S)
            if not _is_laid_out(reading):
                reading.close()
                return None
            self._reading = reading
        return self._reading

    def _writer(self) -> sqlite3.Connection:
        if self._writing is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            writing = self._connected("rwc", _WRITE_WAIT_S)
            writing.executescript(f"PRAGMA page_size = {_PAGE_BYTES}; {_LAYOUT}")
            writing.execute(f"PRAGMA max_page_count = {max(1, self._most_bytes // _PAGE_BYTES)}")
            self._writing = writing
        return self._writing

    def _connected(self, mode: str, wait_s: float) -> sqlite3.Connection:
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(address, uri=True, timeout=wait_s, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def _make_room(self, writing: sqlite3.Connection) -> None:
        """Delete the graphs that were used least recently where there is hardly any room left."""
        if _used_bytes(writing) <= _FULL_FRACTION * self._most_bytes:
            return
        while _used_bytes(writing) > _ROOMY_FRACTION * self._most_bytes:
            gone = writing.execute(
                "DELETE FROM graphs WHERE key IN (SELECT key FROM graphs ORDER BY used_at, rowid "
                "LIMIT (SELECT max(1, count(*) / 8) FROM graphs))"
            ).rowcount
            writing.execute("DELETE FROM sizes WHERE key NOT IN (SELECT key FROM graphs)")
            if not gone:
                return


_INHERITED: Final[list[sqlite3.Connection]] = []
"""Connections of a parent process: to close them here would end its locks."""


def _is_laid_out(connection: sqlite3.Connection) -> bool:
    """Whether all tables are there: the file is there a moment before them."""
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (_LAST_TABLE,)).fetchone() is not None


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages, free = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count"))
    return int(pages - free) * _PAGE_BYTES


class Contents(NamedTuple):
    """How much is kept."""

    graphs: int
    size_bytes: int


def contents(path: Path) -> Contents | None:
    """What a file holds, its log included; None where there is none. Raises as `GraphFile` does."""
    if not path.is_file():
        return None
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_WRITE_WAIT_S)) as reading:
        (graphs,) = reading.execute("SELECT count(*) FROM graphs").fetchone() if _is_laid_out(reading) else (0,)
    log = path.with_name(path.name + "-wal")
    return Contents(graphs, path.stat().st_size + (log.stat().st_size if log.is_file() else 0))
