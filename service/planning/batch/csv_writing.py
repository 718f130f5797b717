"""Rows as CSV, as they come."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from service.contract.cells import Cell, inert
from service.planning.batch.csv_reading import BOM, Dialect

_CHUNK_CHARACTERS: Final = 64 * 1024


def csv_chunks(header: Sequence[Cell], rows: Iterable[Sequence[Cell]], dialect: Dialect) -> Iterator[bytes]:
    """UTF-8 in pieces; text that a spreadsheet would run as a formula is kept as text, numbers stay numbers."""
    text = io.StringIO(newline="")
    text.write(BOM if dialect.has_bom else "")
    writer = csv.writer(text, delimiter=dialect.delimiter, lineterminator=dialect.line_end)
    writer.writerow([_text(cell, dialect) for cell in header])
    for row in rows:
        writer.writerow([_text(cell, dialect) for cell in row])
        if text.tell() > _CHUNK_CHARACTERS:
            yield text.getvalue().encode()
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode()


def _text(cell: Cell, dialect: Dialect) -> str:
    if isinstance(cell, str):
        return inert(cell)
    if isinstance(cell, float):
        written = str(int(cell)) if cell.is_integer() else repr(cell)
        return written.replace(".", ",") if dialect.decimal_comma else written
    return "" if cell is None else str(cell)
