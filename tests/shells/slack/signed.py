"""Requests signed as Slack signs them, and an HTTP server that stands where Slack's own would.

Source: docs.slack.dev, "Verifying requests from Slack", 2026-11.
"""

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from queue import Queue
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode

from starlette.testclient import TestClient

SECRET, TOKEN, TEAM, USER, CHANNEL = "8f742231b10e", "xoxb-test", "T0001", "U0001", "C0001"
ANSWER_S = 20.0
# how long the server keeps those waiting who fetch a model from it, beyond what a command waits
SLOW_S = 2.5
_numbers = count(1)


class FakeSlack:
    """What Slack's Web API and its response addresses were sent, in order."""

    def __init__(self, address: str, received: "Queue[tuple[str, dict[str, Any]]]") -> None:
        self.address = address
        self.received = received

    @property
    def response_url(self) -> str:
        """An address that answers are posted to."""
        return f"{self.address}/response/{next(_numbers)}"

    def next(self) -> tuple[str, dict[str, Any]]:
        """Path and content of the next request; raises queue.Empty where none comes."""
        return self.received.get(timeout=ANSWER_S)


@contextmanager
def fake_slack() -> Iterator[FakeSlack]:
    """Serve on a free port until the end of the block."""
    received: Queue[tuple[str, dict[str, Any]]] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            content = json.loads(text) if text.startswith("{") else {k: v[0] for k, v in parse_qs(text).items()}
            content["authorization"] = self.headers.get("Authorization")
            body = b"ok" if self.path.startswith("/response") else b'{"ok": true}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)
            received.put((self.path, content))

        def do_GET(self) -> None:
            time.sleep(SLOW_S)
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield FakeSlack(f"http://127.0.0.1:{server.server_port}", received)
        server.shutdown()
        thread.join()


def signature(body: str, timestamp: int, secret: str = SECRET) -> str:
    """Slack's signature of a body, version 0."""
    return "v0=" + hmac.new(secret.encode(), f"v0:{timestamp}:{body}".encode(), hashlib.sha256).hexdigest()


def send(
    client: TestClient, path: str, body: str, *, content_type: str, timestamp: int | None = None,
    signed: str | None = None, headers: dict[str, str] | None = None,
) -> Any:  # fmt: skip
    """Post a body with its signature, or with another one."""
    timestamp = int(time.time()) if timestamp is None else timestamp
    return client.post(
        path,
        content=body.encode(),
        headers={
            "Content-Type": content_type,
            "X-Slack-Request-Timestamp": str(timestamp),
            "X-Slack-Signature": signature(body, timestamp) if signed is None else signed,
            **(headers or {}),
        },
    )


def command_body(text: str, response_url: str, **fields: str) -> str:
    """A slash command as Slack posts it."""
    return urlencode({
        "command": "/rigfit", "text": text, "team_id": TEAM, "user_id": USER, "channel_id": CHANNEL,
        "trigger_id": f"trigger.{next(_numbers)}", "response_url": response_url, "api_app_id": "A1", **fields,
    })  # fmt: skip


def send_command(client: TestClient, text: str, response_url: str = "http://127.0.0.1:9/none", **fields: str) -> Any:
    """Send a slash command."""
    body = command_body(text, response_url, **fields)
    return send(client, "/slack/commands", body, content_type="application/x-www-form-urlencoded")


def event_body(text: str, event_id: str, **event: Any) -> str:
    """A mention as the Events API posts it."""
    mention = {"type": "app_mention", "user": USER, "text": text, "ts": "1.2", "channel": CHANNEL, **event}
    return json.dumps({"type": "event_callback", "team_id": TEAM, "event_id": event_id, "event": mention})


def send_event(client: TestClient, body: str, headers: dict[str, str] | None = None, **options: Any) -> Any:
    """Send an event."""
    return send(client, "/slack/events", body, content_type="application/json", headers=headers, **options)


def send_interaction(client: TestClient, payload: dict[str, Any]) -> Any:
    """Send a click, a form or a request for options."""
    whole = {"team": {"id": TEAM}, "user": {"id": USER, "team_id": TEAM}, "trigger_id": f"t{next(_numbers)}", **payload}
    body = urlencode({"payload": json.dumps(whole)})
    return send(client, "/slack/interactions", body, content_type="application/x-www-form-urlencoded")


def click(client: TestClient, action: dict[str, Any], response_url: str, **payload: Any) -> Any:
    """Press a button of an answer."""
    pressed = {"block_id": "b", "action_ts": "1", **action}
    container = {"type": "message", "is_ephemeral": True, "channel_id": CHANNEL}
    return send_interaction(
        client,
        {
            "type": "block_actions",
            "actions": [pressed],
            "response_url": response_url,
            "container": container,
            **payload,
        },
    )


def buttons(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every button of an answer."""
    return [element for block in blocks if block["type"] == "actions" for element in block["elements"]]
