"""The whole OpenAPI document held against a service on PostgreSQL: every check of schemathesis, stateful ones too."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.planning.access.keys import make_key
from service.planning.access.scopes import SCOPES
from tests.databases import Databases, migrate_and_seed, opened
from tests.servers import running, wait_until_ready
from tests.structure.repository import ROOT

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
COMMAND = Path(sys.executable).with_name("schemathesis")
LEAST_EXAMPLES = 5000
# besides the cases that the document's own bounds call for, which are most
EXAMPLES_AT_RANDOM = os.environ.get("RIGFIT_TEST_EXAMPLES", "12")


@pytest.mark.slow
def test_the_service_is_as_described(
    postgresql: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of at least 5,000 requests made from the document none fails a check; RIGFIT_TEST_EXAMPLES makes more of them."""
    # addresses of models are made up as well, and nothing is to be asked for them
    monkeypatch.setenv("RIGFIT_MODEL_HOSTS", ",")
    report, url = tmp_path / "report.json", postgresql.copy_of("seeded", migrate_and_seed)
    with opened(url) as database:
        monkeypatch.setenv("RIGFIT_TEST_KEY", make_key(database, "conformance", SCOPES).text)
    with running(RIGFIT_DATABASE_URL=url) as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        address = service.address
        arguments = ["--max-examples", EXAMPLES_AT_RANDOM, "--report", "json", "--report-json-path", str(report)]
        ran = subprocess.run(
            [COMMAND, "--config-file", CONFIGURATION, "run", f"{address}/openapi.json", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=False,
            capture_output=True,
            text=True,
        )
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2000:]
    found = json.loads(report.read_text("utf-8"))
    generated = found["test_cases"]["generated"]
    with capsys.disabled():
        sys.stdout.write(f"schemathesis: {generated:,} examples over {found['operations']['tested']} operations\n")
    assert generated >= LEAST_EXAMPLES
    assert found["operations"]["tested"] == found["operations"]["total"]
    assert {name: phase["status"] for name, phase in found["phases"].items()} == dict.fromkeys(
        ("examples", "coverage", "fuzzing", "stateful"), "success"
    )
