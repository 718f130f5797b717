"""Uploaded model files: headers read as they come, the rest passed over."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import anyio
from anyio import from_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from service.core.problems import InvalidRequest, PlanProblem
from service.core.types import Model
from service.gguf.header import Header, read_file_header
from service.gguf.limits import MAX_PARTS
from service.gguf.reader import read_part_headers
from service.shells.rest.body_limit import DRAINED_BYTES
from service.shells.rest.multipart import MultipartBody, Part

_SILENCE_S: Final = 30.0
_LONGEST_S: Final = 900.0
_LONGEST_ALIAS_BYTES: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A model that was uploaded, the name of its file, and the alias it was given."""

    model: Model
    file_name: str
    alias: str | None


def read_upload(request: Request) -> Upload:
    """Read a GGUF file, or all parts of a split one, from fields named `file`, and an alias from one named `alias`.

    Must run in a worker thread. Raises InvalidRequest for another form, UnreadableModel for what is no model.
    """
    chunks = _chunks(request)
    try:
        return _read_form(MultipartBody(request.headers["content-type"], chunks.__next__))
    except PlanProblem:
        _drain(chunks)
        raise


def _read_form(form: MultipartBody) -> Upload:
    headers: list[Header] = []
    file_name, alias = "", None
    for part in form.parts():
        match part.head.name:
            case "file":
                headers.append(_read_header(part, len(headers)))
                file_name = file_name or (part.head.file_name or "upload")
            case "alias" if alias is None:
                alias = part.text(_LONGEST_ALIAS_BYTES)
            case name:
                raise InvalidRequest(f"{name[:80]!r} is no field of an upload: send file and perhaps alias.")
    if not headers:
        raise InvalidRequest("The form has no field named file: send a GGUF file or its first megabytes as file.")
    name = file_name.replace("\\", "/").rpartition("/")[2]
    return Upload(model=read_part_headers(headers), file_name=name, alias=alias)


def _read_header(part: Part, parts_read: int) -> Header:
    if parts_read >= MAX_PARTS:
        raise InvalidRequest(f"More than {MAX_PARTS} files are no model.")
    return read_file_header(part)


def _drain(chunks: Iterator[bytes]) -> None:
    """Pass over what is still being sent, so that the sender reads its answer instead of a broken connection."""
    drained_bytes = 0
    with suppress(PlanProblem, StopIteration):
        while drained_bytes < DRAINED_BYTES and (chunk := next(chunks)):
            drained_bytes += len(chunk)


def _chunks(request: Request) -> Iterator[bytes]:
    """Chunks of a body, b"" at its end and after, waited for in the event loop for a quarter of an hour in all."""
    stream = request.stream()
    end_s = time.monotonic() + _LONGEST_S

    async def receive() -> bytes:
        with anyio.fail_after(min(_SILENCE_S, max(0.0, end_s - time.monotonic()))):
            return await anext(stream, b"")

    while True:
        try:
            yield from_thread.run(receive)
        except (ClientDisconnect, TimeoutError):
            raise InvalidRequest("The upload stopped before its end.") from None
