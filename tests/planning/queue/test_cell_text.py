"""Cells as JSON and back."""

import math
from datetime import date, datetime, time, timedelta

import orjson
from hypothesis import given
from hypothesis import strategies as st

from service.contract.cells import Cell
from service.planning.queue.cell_text import cells_of, dumps

CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.datetimes(),
    st.times(),
    st.timedeltas(timedelta(), timedelta(days=10_000)).map(lambda span: timedelta(seconds=round(span.total_seconds()))),
)


@given(st.lists(CELLS))
def test_cells_come_back_as_they_were(cells: list[Cell]) -> None:
    """Kind and value of every cell survive."""
    again = cells_of(orjson.loads(dumps(cells)))
    assert again == cells
    assert list(map(type, again)) == list(map(type, cells))


def test_a_moment_is_not_its_day() -> None:
    """Dates, moments, hours and spans are told apart."""
    cells: list[Cell] = [date(2026, 11, 30), datetime(2026, 11, 30), time(7, 30), timedelta(hours=30)]  # noqa: DTZ001
    assert cells_of(orjson.loads(dumps(cells))) == cells
    assert math.isclose(orjson.loads(dumps(cells))[3]["timedelta_s"], 108_000)
