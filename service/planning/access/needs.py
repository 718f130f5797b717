"""Which scope an address needs, by the first part of its path and the method."""

from collections.abc import Mapping
from typing import Final

from service.planning.access.scopes import Scope

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN: Final = frozenset(
    {"docs", "healthz", "metrics", "openapi.json", "problems", "readyz", "sign-in", "slack", "static"}
)
"""Parts that need no key ever: they say how to ask and whether the service lives. Slack signs its requests."""
WRITES: Final[Mapping[str, Scope]] = {
    "gpus": "cards",
    "measurements": "measurements",
    "models": "models",
    # whoever may ask may have it asked in the queue, and only who knows its name can cancel it
    "batches": "read",
    "compare": "read",
    "plan": "read",
    # a kept plan changes no catalogue and no other plan: whoever may ask may keep the answer
    "plans": "read",
    "recommend": "read",
    "rigs": "read",
}
"""What any method but a safe one needs. Every part that answers one stands here or in OPEN; a test sees to it."""
READS: Final[Mapping[str, Scope]] = {"audit": "audit"}
"""What is not for every reader."""


def need_of(method: str, path: str) -> Scope | None:
    """The scope that a request needs; None where it needs none. Addresses that nobody answers need `read`."""
    part = path.split("/", 2)[1] if path.startswith("/") else ""
    if part in OPEN:
        return None
    return (READS if method in SAFE_METHODS else WRITES).get(part, "read")
