"""Run by LibreOffice's own Python: opens a document in it, recalculates, saves it in other forms, tells its cells.

Asked with JSON on standard input: `pipe` (name that LibreOffice listens at), `document` (path), `cells` (address in
the first sheet to what is typed there), `saves` (path, filter, filter options). Answers with JSON: the first sheet's
values, what is shown of them and its errors as rows, and how many charts the document has.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import uno
from com.sun.star.beans import PropertyValue
from com.sun.star.connection import NoConnectException

START_S = 60.0
# com.sun.star.document.UpdateDocMode.FULL_UPDATE: formulas that ask a server do so
FULL_UPDATE = 3


def prop(name: str, value: Any) -> PropertyValue:
    found = PropertyValue()
    found.Name, found.Value = name, value
    return found


def desktop(pipe: str) -> Any:
    """The desktop of the LibreOffice that listens at a pipe; waits until it does."""
    local = uno.getComponentContext()
    resolver = local.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", local)
    deadline = time.monotonic() + START_S
    while True:
        try:
            context = resolver.resolve(f"uno:pipe,name={pipe};urp;StarOffice.ComponentContext")
            return context.ServiceManager.createInstanceWithContext("com.sun.star.frame.Desktop", context)
        except NoConnectException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def told(sheet: Any) -> dict[str, Any]:
    """What the sheet holds once it is calculated."""
    cursor = sheet.createCursor()
    cursor.gotoEndOfUsedArea(False)
    width, height = cursor.RangeAddress.EndColumn + 1, cursor.RangeAddress.EndRow + 1
    rows = [[sheet.getCellByPosition(at, row) for at in range(width)] for row in range(height)]
    return {
        "values": sheet.getCellRangeByPosition(0, 0, width - 1, height - 1).getDataArray(),
        "shown": [[cell.String for cell in row] for row in rows],
        "errors": [[cell.getError() for cell in row] for row in rows],
    }


def main() -> None:
    """Do what standard input asks for."""
    job = json.load(sys.stdin)
    opened = desktop(job["pipe"]).loadComponentFromURL(
        Path(job["document"]).as_uri(), "_blank", 0, (prop("Hidden", True), prop("UpdateDocMode", FULL_UPDATE))
    )
    try:
        sheet = opened.Sheets.getByIndex(0)
        for address, text in job["cells"].items():
            sheet.getCellRangeByName(address).FormulaLocal = text
        opened.calculateAll()
        for path, name, options in job["saves"]:
            opened.storeToURL(Path(path).as_uri(), (prop("FilterName", name), prop("FilterOptions", options)))
        charts = sum(opened.Sheets.getByIndex(at).Charts.Count for at in range(opened.Sheets.Count))
        json.dump(told(sheet) | {"charts": charts}, sys.stdout)
    finally:
        opened.close(True)


main()
