"""Refuses request bodies that are too long, before anything reads them into memory."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.contract.problem import problem
from service.shells.rest.problems import problem_response

# A client that is still sending does not read; up to this length the rest is read and thrown away, so that it
# gets its answer instead of a broken connection.
DRAINED_BYTES = 64 * 1024**2


class BodyLimit:
    """ASGI middleware that answers 413 where a body is longer than `max_bytes`."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a counted body."""
        stated = _stated_bytes(scope) if scope["type"] == "http" else None
        if stated is not None and stated > self.max_bytes:
            if stated <= DRAINED_BYTES:
                await _drain(receive)
            await self._refuse(scope, receive, send)
            return
        received_bytes = 0

        async def counted_receive() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > self.max_bytes:
                # the framework reads bodies inside a handler of its own, which lets only this kind through
                raise HTTPException(413, self._detail, headers={"Connection": "close"})
            return message

        await self.app(scope, counted_receive, send)

    @property
    def _detail(self) -> str:
        return f"The body is longer than {self.max_bytes} bytes, the most that is read here."

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = problem("too-large", self._detail, instance=scope["path"])
        await problem_response(answer, {"Connection": "close"})(scope, receive, send)


def _stated_bytes(scope: Scope) -> int | None:
    """Length that the request states, None where it states none."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return None


async def _drain(receive: Receive) -> None:
    more = True
    while more:
        message = await receive()
        more = message["type"] == "http.request" and message.get("more_body", False)
