"""A real LibreOffice, headless, with a profile of its own, that opens what the service gives."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.databases import Databases
from tests.marking import mark_folder
from tests.servers import served

DRIVER = Path(__file__).with_name("recalculate.py")
PATIENCE_S = 180.0
# links are updated without asking, in documents of the folder that is trusted
PROFILE = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Calc/Content/Update">
<prop oor:name="Link" oor:op="fuse"><value>0</value></prop></item>
<item oor:path="/org.openoffice.Office.Common/Security/Scripting">
<prop oor:name="SecureURL" oor:op="fuse"><value><it>{folder}</it></value></prop></item>
</oor:items>
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs LibreOffice, and keep it together in one process."""
    mark_folder(items, Path(__file__).parent, "spreadsheet")


def office_python() -> str:
    """The Python that drives LibreOffice; raises FileNotFoundError where there is none."""
    if found := os.environ.get("RIGFIT_TEST_LIBREOFFICE_PYTHON"):
        return found
    for candidate in filter(None, map(shutil.which, ("/usr/bin/python3", "python3"))):
        if subprocess.run([candidate, "-c", "import uno"], check=False, capture_output=True).returncode == 0:
            return candidate
    raise FileNotFoundError(
        "no LibreOffice: script/libreoffice installs one, -m 'not slow and not spreadsheet' does without"
    )


@dataclass(frozen=True)
class Sheet:
    """The first sheet of a document, calculated."""

    values: list[list[Any]]
    shown: list[list[str]]
    errors: list[list[int]]
    charts: int

    def rows(self) -> list[dict[str, Any]]:
        """Values by the names of the first row."""
        header, *rows = self.values
        return [dict(zip(header, row, strict=True)) for row in rows]


@dataclass(frozen=True)
class Office:
    """A LibreOffice that runs, and the folder whose documents it trusts."""

    folder: Path
    pipe: str

    def calculate(
        self, content: bytes, cells: Mapping[str, str] | None = None, saves: Sequence[tuple[str, str, str]] = ()
    ) -> Sheet:
        """Open a workbook, type into cells, recalculate, save it under names with a filter and its options."""
        document = self.folder / "opened.xlsx"
        document.write_bytes(content)
        job = {
            "pipe": self.pipe, "document": str(document), "cells": cells or {},
            "saves": [(str(self.folder / name), *how) for name, *how in saves],
        }  # fmt: skip
        answer = subprocess.run(
            [office_python(), DRIVER],
            input=json.dumps(job).encode(),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr.decode()
        return Sheet(**json.loads(answer.stdout))

    def saved(self, name: str) -> bytes:
        """What was saved under a name."""
        return (self.folder / name).read_bytes()


@pytest.fixture(scope="package")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """LibreOffice, until the last test of the package."""
    folder, profile = tmp_path_factory.mktemp("documents"), tmp_path_factory.mktemp("profile")
    (profile / "user").mkdir()
    (profile / "user" / "registrymodifications.xcu").write_text(PROFILE.format(folder=folder.as_uri()), "utf-8")
    pipe = f"rigfit-{os.getpid()}"
    soffice = shutil.which("soffice")
    assert soffice is not None, "script/libreoffice installs it"
    arguments = [f"-env:UserInstallation={profile.as_uri()}", f"--accept=pipe,name={pipe};urp;"]
    with subprocess.Popen(
        [soffice, "--headless", "--norestore", *arguments], stderr=subprocess.DEVNULL, start_new_session=True
    ) as running:
        try:
            yield Office(folder, pipe)
        finally:
            os.killpg(running.pid, 15)


@pytest.fixture(scope="package")
def site(sqlite: Databases) -> Iterator[str]:
    """Address of a server on a seeded database."""
    with served(sqlite) as address:
        yield address
