"""Uploads that are one job however often they are sent, because their sender says so."""

import hashlib
from dataclasses import dataclass

from service.core.problems import PlanProblem


class KeyReused(PlanProblem):
    """A key that stands for another upload."""

    slug = "idempotency-key-reused"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentOnce:
    """What a caller calls an upload by; the same key of another caller is another upload.

    Source: draft-ietf-httpapi-idempotency-key-header-07.
    """

    caller: str
    key: str

    @property
    def mark(self) -> str:
        """Digest of both, since a caller may be an address and a key anything."""
        return hashlib.sha256(f"{self.caller}\n{self.key}".encode()).hexdigest()
