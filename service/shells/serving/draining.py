"""The end of a serving process: balancers are told, then nothing new is taken, then what is under way is finished."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = structlog.get_logger(__name__)

_CLOSE = (b"connection", b"close")


class Draining:
    """Whether this process is about to end: it still answers, but asks to be turned away from."""

    def __init__(self, drain_s: float) -> None:
        self._drain_s = drain_s
        self.has_begun = False

    @contextmanager
    def on_sigterm(self) -> Iterator[None]:
        """Let SIGTERM begin the drain, at the end of which it reaches the server's own handler.

        A second SIGTERM, and SIGINT, which a person sends, end the drain at once.
        """
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may handle signals: this one serves a test
            return
        loop, stop = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)
        if not callable(stop):
            yield
            return

        def begin(number: int, frame: FrameType | None) -> None:
            if self.has_begun or not self._drain_s:
                self.has_begun = True
                stop(number, frame)
                return
            self.has_begun = True
            log.info("draining", seconds=self._drain_s)
            loop.call_soon_threadsafe(loop.call_later, self._drain_s, partial(stop, number, None))

        signal.signal(signal.SIGTERM, begin)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, stop)


class CloseWhileDraining:
    """ASGI middleware that ends each connection with its next answer once the drain has begun."""

    def __init__(self, app: ASGIApp, draining: Draining) -> None:
        self.app = app
        self.draining = draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; add `Connection: close` to its answer."""
        if not self.draining.has_begun or scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def closing_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), _CLOSE]
            await send(message)

        await self.app(scope, receive, closing_send)
