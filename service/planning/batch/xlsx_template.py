"""A workbook to fill in: a row asks a question, formulas fetch the answer from this service."""

import io
from collections.abc import Sequence
from typing import Final

import xlsxwriter

from service.planning.batch.xlsx_formats import NUMBER_FORMATS, VERDICT_COLOURS

_ROWS: Final = 50
_QUESTIONS: Final = ("model", "gpus", "context_tokens", "parallel")
_FIELDS: Final = (
    "verdict", "decode_tokens_per_s", "prefill_tokens_per_s", "ttft_s", "max_context_tokens", "busiest_device_bytes",
    "least_headroom_bytes", "recommended_psu_w",
)  # fmt: skip
_EXAMPLE: Final = ("llama-3.3-70b:Q4_K_M", "2x rtx-3090", 16384, 1)
_ADDRESS: Final = "Settings!$B$1"
_FREE_ENTRY: Final = {"error_type": "information", "show_error": False}


def template(address: str, models: Sequence[str], gpus: Sequence[str]) -> bytes:
    """A workbook whose formulas ask the service at `address`; models and gpus: what its lists offer."""
    file = io.BytesIO()
    with xlsxwriter.Workbook(file, {"strings_to_formulas": False, "strings_to_urls": False}) as workbook:
        sheet = workbook.add_worksheet("Questions")
        _settings(workbook, address)
        _lists(workbook, models, gpus)
        bold = workbook.add_format({"bold": True, "bottom": 1})
        for at, name in enumerate((*_QUESTIONS, *_FIELDS)):
            sheet.write_string(0, at, name, bold)
        sheet.set_column(0, 1, 28)
        sheet.set_column(2, len(_QUESTIONS) + len(_FIELDS) - 1, 16)
        sheet.freeze_panes(1, 0)
        for at, cell in enumerate(_EXAMPLE):
            sheet.write(1, at, cell)
        formats = {name: workbook.add_format({"num_format": shape}) for name, shape in NUMBER_FORMATS.items()}
        for row in range(1, _ROWS + 1):
            for at, name in enumerate(_FIELDS, len(_QUESTIONS)):
                sheet.write_formula(row, at, formula(row + 1, name), formats.get(name), "")
        _validate(sheet, len(models), len(gpus))
        for verdict, (background, text) in VERDICT_COLOURS.items():
            shape = workbook.add_format({"bg_color": background, "font_color": text})
            rule = {"type": "cell", "criteria": "==", "value": f'"{verdict}"', "format": shape}
            sheet.conditional_format(1, len(_QUESTIONS), _ROWS, len(_QUESTIONS), rule)
    return file.getvalue()


def formula(row: int, field: str) -> str:
    """The formula of one value of the question in a row; a problem is its sentence, a number a number.

    NUMBERVALUE reads the point whatever the country of the spreadsheet.
    """
    parts = [f'{_ADDRESS}&"/plan?field={field}&problems=text&model="&_xlfn.ENCODEURL($A{row})']
    for at, name in enumerate(_QUESTIONS[1:], 1):
        cell = f"${chr(ord('A') + at)}{row}"
        parts.append(f'IF({cell}="","","&{name}="&_xlfn.ENCODEURL({cell}))')
    answer = f"_xlfn.WEBSERVICE({'&'.join(parts)})"
    if field == "verdict":
        return f'=IF($A{row}="","",{answer})'
    return f'=IF(OR($A{row}="",LEFT($E{row},1)="#"),"",IFERROR(_xlfn.NUMBERVALUE({answer},"."),""))'


def _settings(workbook: xlsxwriter.Workbook, address: str) -> None:
    sheet = workbook.add_worksheet("Settings")
    sheet.set_column(0, 0, 24)
    sheet.set_column(1, 1, 48)
    sheet.write_string(0, 0, "Address of the service")
    sheet.write_string(0, 1, address)
    sheet.write_string(2, 0, "The formulas of the sheet Questions ask this address; the lists are those of its making.")


def _lists(workbook: xlsxwriter.Workbook, models: Sequence[str], gpus: Sequence[str]) -> None:
    sheet = workbook.add_worksheet("Lists")
    sheet.set_column(0, 1, 40)
    for at, names in enumerate((models, gpus)):
        sheet.write_string(0, at, ("Models", "Cards")[at])
        for row, name in enumerate(names, 1):
            sheet.write_string(row, at, name)


def _validate(sheet: "xlsxwriter.worksheet.Worksheet", models: int, gpus: int) -> None:
    """Lists to choose from, in which rigs of several cards may be typed too, and whole numbers."""
    for at, source in enumerate((f"=Lists!$A$2:$A${models + 1}", f"=Lists!$B$2:$B${gpus + 1}")):
        sheet.data_validation(1, at, _ROWS, at, {"validate": "list", "source": source, **_FREE_ENTRY})
    for at, most in ((2, 100_000_000), (3, 256)):
        rule = {"validate": "integer", "criteria": "between", "minimum": 1, "maximum": most}
        sheet.data_validation(1, at, _ROWS, at, rule)
