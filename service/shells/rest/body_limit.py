"""Refuses request bodies that are too long, before anything reads them into memory."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.contract.problem import problem
from service.shells.rest.problems import problem_response

# A client that is still sending does not read; up to this length the rest is read and thrown away, so that it
# gets its answer instead of a broken connection.
DRAINED_BYTES = 64 * 1024**2
# a small body could unpack to a vast one. Source: RFC 9110, 15.5.16 (415 with Accept-Encoding)
_CODED = "A compressed body is not read here: send it as it is."


class BodyLimit:
    """ASGI middleware that answers 413 where a body is longer than `max_bytes`, and 415 where it is compressed.

    Uploads, forms with files sent to POST /models, which reads them as they come, may have `max_upload_bytes`, and
    tables of questions `max_batch_bytes`.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, max_upload_bytes: int, max_batch_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.max_upload_bytes = max_upload_bytes
        self.max_batch_bytes = max_batch_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a counted body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        max_bytes = self._max_bytes(scope)
        stated, coding = _stated(scope)
        if coding not in (b"", b"identity"):
            answer = problem("unsupported-media", _CODED, instance=scope["path"])
            await problem_response(answer, {"Accept-Encoding": "identity", "Connection": "close"})(scope, receive, send)
            return
        if stated is not None and stated > max_bytes:
            if stated <= DRAINED_BYTES:
                await _drain(receive)
            answer = problem("too-large", _detail(max_bytes), instance=scope["path"])
            await problem_response(answer, {"Connection": "close"})(scope, receive, send)
            return
        received_bytes = 0

        async def counted_receive() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > max_bytes:
                # the framework reads bodies inside a handler of its own, which lets only this kind through
                raise HTTPException(413, _detail(max_bytes), headers={"Connection": "close"})
            return message

        await self.app(scope, counted_receive, send)

    def _max_bytes(self, scope: Scope) -> int:
        if _is_upload(scope):
            return self.max_upload_bytes
        return self.max_batch_bytes if scope["path"] == "/plan/batch" else self.max_bytes


def _detail(max_bytes: int) -> str:
    return f"The body is longer than {max_bytes} bytes, the most that is read here."


def _is_upload(scope: Scope) -> bool:
    if scope["method"] != "POST" or scope["path"] != "/models":
        return False
    return any(
        name == b"content-type" and value.lower().startswith(b"multipart/form-data") for name, value in scope["headers"]
    )


def _stated(scope: Scope) -> tuple[int | None, bytes]:
    """Length and coding that the request states of its body; None and nothing where it states none."""
    length, coding = None, b""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            length = int(value)
        elif name == b"content-encoding":
            coding = value.strip().lower()
    return length, coding


async def _drain(receive: Receive) -> None:
    more = True
    while more:
        message = await receive()
        more = message["type"] == "http.request" and message.get("more_body", False)
