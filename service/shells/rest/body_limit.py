"""Refuses request bodies that are too long, before anything reads them into memory."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.contract.problem import problem
from service.shells.rest.problems import problem_response

# A client that is still sending does not read; up to this length the rest is read and thrown away, so that it
# gets its answer instead of a broken connection.
DRAINED_BYTES = 64 * 1024**2


class BodyTooLarge(Exception):
    """A body without a stated length went over the limit."""


class BodyLimit:
    """ASGI middleware that answers 413 where a body is longer than `max_bytes`."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a counted body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        stated = _stated_bytes(scope)
        if stated is not None and stated > self.max_bytes:
            if stated <= DRAINED_BYTES:
                await _drain(receive)
            await self._refuse(scope, receive, send)
            return
        started = False
        received_bytes = 0

        async def counted_receive() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > self.max_bytes:
                raise BodyTooLarge
            return message

        async def noted_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, counted_receive, noted_send)
        except BodyTooLarge:
            if started:
                raise
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = f"The body is longer than {self.max_bytes} bytes, the most that is read here."
        response = problem_response(problem("too-large", detail, instance=scope["path"]))
        response.headers["Connection"] = "close"
        await response(scope, receive, send)


def _stated_bytes(scope: Scope) -> int | None:
    for name, value in scope["headers"]:
        if name == b"content-length":
            try:
                return int(value)
            except ValueError:
                return None
    return None


async def _drain(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            return
