"""The container files say what they should: linted, valid, and at one with the settings."""

import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from service.settings import Settings
from tests.containers.dockerfile import DOCKERFILE, instructions, last
from tests.structure.repository import ROOT, tracked_files

COMPOSE = ROOT / "docker-compose.yml"
PROXY = ROOT / "docker" / "haproxy.cfg"
TOOLS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The compose file with its anchors put in."""
    read: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))
    return read


def test_hadolint_finds_nothing() -> None:
    """The Dockerfile has none of the faults that hadolint knows, informative ones included."""
    linted = subprocess.run([TOOLS / "hadolint", DOCKERFILE], check=False, capture_output=True, text=True)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_compose_lint_finds_only_what_is_meant() -> None:
    """Images go by tag (a digest is the operator's to pin), and PostgreSQL may write in its own container."""
    command = [str(TOOLS / "compose-lint"), "check", "--format", "json", "--fail-on", "low", str(COMPOSE)]
    linted = subprocess.run(command, check=False, capture_output=True, text=True)
    found = {(finding["service"], finding["rule_id"]) for finding in findings(json.loads(linted.stdout))}
    pinned_by_tag = {(service, "CL-0019") for service in ("database", "migrate", "service", "proxy", "worker")}
    assert found
    assert found <= {("database", "CL-0007"), *pinned_by_tag}


def findings(report: Any) -> list[dict[str, Any]]:
    """Findings wherever they are in a report."""
    if isinstance(report, dict):
        inner = [finding for value in report.values() for finding in findings(value)]
        return [report, *inner] if "rule_id" in report and "service" in report else inner
    return [finding for value in report for finding in findings(value)] if isinstance(report, list) else []


def test_the_compose_file_follows_the_specification(compose: dict[str, Any]) -> None:
    """Every key is one of the Compose Specification's, and its value of the right kind."""
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text("utf-8"))
    validator = jsonschema_rs.validator_for(schema)
    validator.validate(compose)
    for wrong in ({"services": {"x": {"imagee": "y"}}}, {"services": {"x": {"ports": 8000}}}):
        assert not validator.is_valid(compose | wrong)


def test_services_start_in_order(compose: dict[str, Any]) -> None:
    """Database, then migrations once, then replicas, then the proxy; only the proxy is reached from outside."""
    services = compose["services"]
    conditions = {
        name: {on: needed["condition"] for on, needed in service.get("depends_on", {}).items()}
        for name, service in services.items()
    }
    assert conditions["migrate"] == {"database": "service_healthy"}
    assert conditions["service"] == {"migrate": "service_completed_successfully"}
    assert conditions["proxy"] == {"service": "service_healthy"}
    assert "restart" not in services["migrate"]
    assert services["service"]["deploy"]["replicas"] > 1
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    assert all(port.startswith("127.0.0.1:") for port in services["proxy"]["ports"])


def test_variables_are_settings(compose: dict[str, Any]) -> None:
    """Each RIGFIT_ variable of the container files is a setting, spelled as it is."""
    said = {word.partition("=")[0] for one in instructions() if one.keyword == "ENV" for word in one.words()}
    said |= {name for service in compose["services"].values() for name in service.get("environment", {})}
    named = {name.removeprefix("RIGFIT_").lower() for name in said if name.startswith("RIGFIT_")}
    assert named
    assert named <= Settings.model_fields.keys()


def test_the_end_has_its_time(compose: dict[str, Any]) -> None:
    """The engine waits for the drain and what is under way before it kills; the proxy lets go of connections first."""
    environment = {name: value for word in last("ENV").words() for name, _, value in [word.partition("=")]}
    settings = Settings(drain_s=float(environment["RIGFIT_DRAIN_S"]))
    grace_s = int(compose["services"]["service"]["stop_grace_period"].removesuffix("s"))
    assert grace_s >= settings.drain_s + settings.finish_s
    waits_s = {name: int(value) for name, value in re.findall(r"timeout ([\w-]+) (\d+)s", PROXY.read_text("utf-8"))}
    assert waits_s["http-keep-alive"] < settings.keep_alive_s
    assert waits_s["http-request"] < settings.request_head_s
    # the proxy looks more often than the drain lasts
    assert "check inter 1s" in PROXY.read_text("utf-8")
    assert settings.drain_s > 2


def test_mounted_files_are_there(compose: dict[str, Any]) -> None:
    """What the compose file mounts from the checkout is in it."""
    mounted = [
        volume.partition(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]
    assert mounted == ["./docker/haproxy.cfg"]
    assert all((ROOT / path).is_file() for path in mounted)


def test_images_are_pinned() -> None:
    """No base image follows whatever is newest."""
    bases = [one.words()[0] for one in instructions() if one.keyword == "FROM"]
    bases += re.findall(r"^\s+image: (\S+)$", COMPOSE.read_text("utf-8"), re.MULTILINE)
    assert bases
    assert [base for base in bases if not re.search(r":[\w.-]*\d[\w.-]*$", base)] == []


def test_the_context_has_what_is_copied_and_little_else() -> None:
    """.dockerignore lets through what COPY names, and nothing that is not copied."""
    allowed = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for one in instructions()
        if one.keyword == "COPY" and not one.text.startswith("--from")
        for source in one.words()[:-1]
    }
    assert allowed == copied
    tracked = {path.parts[0] for path in tracked_files()}
    assert all(any(fnmatch(name, source) for name in tracked) for source in copied)
