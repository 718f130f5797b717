"""The manifest that creates the app says where the service listens."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import yaml
from starlette.testclient import TestClient

from tests.shells.slack.signed import send_command
from tests.structure.repository import ROOT


def addresses(part: Any) -> Iterator[str]:
    """Every address of a manifest."""
    if isinstance(part, dict):
        for value in part.values():
            yield from addresses(value)
    elif isinstance(part, list):
        for value in part:
            yield from addresses(value)
    elif isinstance(part, str) and part.startswith("https://"):
        yield part


def test_manifest_names_addresses_that_answer(client: TestClient) -> None:
    """Each address is of the service, takes posts and wants them signed."""
    manifest = yaml.safe_load((ROOT / "docs" / "slack-app.yaml").read_text("utf-8"))
    paths = {urlsplit(address).path for address in addresses(manifest)}
    assert paths == {"/slack/commands", "/slack/events", "/slack/interactions"}
    assert {client.post(path, content=b"x").status_code for path in paths} == {401}


def test_usage_hint_is_a_question(client: TestClient) -> None:
    """What Slack shows while the command is typed is answered."""
    manifest = yaml.safe_load((ROOT / "docs" / "slack-app.yaml").read_text("utf-8"))
    (command,) = manifest["features"]["slash_commands"]
    shown = send_command(client, command["usage_hint"]).json()
    assert shown["blocks"][0]["type"] == "header"
