"""Header fields that tell a browser what it may do with an answer; it may do nothing with most."""

import base64
import hashlib
import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

RawHeaders = list[tuple[bytes, bytes]]

_POLICY: Final = b"content-security-policy"
_DATA_POLICY: Final = b"default-src 'none'; frame-ancestors 'none'"
_ONE_YEAR_S: Final = 365 * 24 * 3600
_INLINE_SCRIPT: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)


class SecurityHeaders:
    """ASGI middleware that adds to every answer what it does not say itself.

    Data can be framed, sniffed and run nowhere; pages state their own policy (service/shells/web/rendering.py).
    is_behind_tls: whether browsers may be told to come by HTTPS alone from now on.
    Source: OWASP Secure Headers Project; RFC 6797 (HSTS); W3C Content Security Policy 3.
    """

    def __init__(self, app: ASGIApp, *, is_behind_tls: bool) -> None:
        self.app = app
        self._always: RawHeaders = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
        if is_behind_tls:
            self._always.append((b"strict-transport-security", b"max-age=%d" % _ONE_YEAR_S))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; what comes back goes out with its header fields."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers: RawHeaders = message["headers"]
                said = {name for name, _ in headers}
                headers.extend(field for field in self._always if field[0] not in said)
                if _POLICY not in said:
                    headers.append((_POLICY, _DATA_POLICY))
            await send(message)

        await self.app(scope, receive, send_safely)


def documentation_policy(page: str) -> str:
    """Policy of FastAPI's page about the API: its one script, by its digest, and Swagger UI from where it is loaded.

    Swagger UI sets styles inline. Source: fastapi.openapi.docs.get_swagger_ui_html.
    """
    digests = [hashlib.sha256(script.encode()).digest() for script in _INLINE_SCRIPT.findall(page)]
    scripts = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src https://cdn.jsdelivr.net {scripts}; "
        "style-src https://cdn.jsdelivr.net 'unsafe-inline'; img-src 'self' data: https://fastapi.tiangolo.com; "
        "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
