"""The whole OpenAPI document held against a service on PostgreSQL: every check of schemathesis, stateful ones too."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.databases import Databases
from tests.servers import served

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
    report = tmp_path / "report.json"
    with served(postgresql) as address:
        arguments = ["--max-examples", EXAMPLES_AT_RANDOM, "--report", "json", "--report-json-path", str(report)]
        ran = subprocess.run(
            [COMMAND, "--config-file", CONFIGURATION, "run", f"{address}/openapi.json", *arguments],
            cwd=tmp_path,
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
