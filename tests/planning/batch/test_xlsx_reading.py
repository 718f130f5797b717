"""Workbooks from anywhere."""

import io

import pytest
import xlsxwriter

from service.planning.batch.limits import Limits, TooLarge
from service.planning.batch.xlsx_reading import read_xlsx


def test_a_small_file_with_a_vast_sheet_is_too_large() -> None:
    """A cell in the last corner makes billions of them: refused, and this process lives on."""
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as workbook:
        sheet = workbook.add_worksheet()
        sheet.write(0, 0, "model")
        sheet.write(1_048_575, 16_383, 1)
    with pytest.raises(TooLarge, match="memory"):
        read_xlsx(file.getvalue(), Limits(rows=1000))
