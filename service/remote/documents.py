"""Small JSON documents of model hosts, in bounded memory."""

from collections.abc import Mapping
from typing import Any

import httpx2
import orjson

from service.core.units import MIB
from service.remote.problems import ModelHostUnavailable, UnreadableRemoteModel
from service.remote.retries import persistently, transport_failures
from service.remote.session import HostSession

LARGEST_DOCUMENT_BYTES = 4 * MIB


def fetch_json(
    session: HostSession,
    url: httpx2.URL,
    *,
    accept: str = "application/json",
    most_bytes: int = LARGEST_DOCUMENT_BYTES,
) -> tuple[Any, httpx2.Headers]:
    """A JSON document of at most `most_bytes` and the headers that came with it; raises PlanProblem."""

    def attempt() -> tuple[bytes, httpx2.Headers]:
        answer = session.open(url, {"accept": accept})
        try:
            return _content(answer, most_bytes), answer.headers
        finally:
            answer.close()

    content, headers = persistently(attempt, session.deadline, session.access.first_wait_s)
    try:
        return orjson.loads(content), headers
    except orjson.JSONDecodeError:
        raise UnreadableRemoteModel(f"{url.host}{url.path} is not JSON.") from None


def _content(answer: httpx2.Response, most_bytes: int) -> bytes:
    content = bytearray()
    with transport_failures(answer.url.host):
        for chunk in answer.iter_raw():
            content += chunk
            if len(content) > most_bytes:
                raise UnreadableRemoteModel(f"{answer.url.host}{answer.url.path} is longer than {most_bytes:,} bytes.")
    return bytes(content)


def text_of(document: object, key: str, host: str) -> str:
    """A text of a JSON object; raises ModelHostUnavailable where the host's answer has none."""
    value = document.get(key) if isinstance(document, Mapping) else None
    if not isinstance(value, str):
        raise ModelHostUnavailable(f"{host} answers with a document that has no {key}: its interface may have changed.")
    return value


def list_of(document: object, key: str, host: str) -> list[Any]:
    """A list of a JSON object; raises as `text_of` does."""
    value = document.get(key) if isinstance(document, Mapping) else None
    if not isinstance(value, list):
        raise ModelHostUnavailable(f"{host} answers with a document that has no {key}: its interface may have changed.")
    return value
