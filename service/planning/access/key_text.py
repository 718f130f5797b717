"""What a key looks like: `rgf_<id>_<secret>`, of which only the id and a digest of the secret are kept."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Final

_KEY: Final = re.compile(r"rgf_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_ID_BYTES: Final = 6
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownKey:
    """What a caller shows, read: which key it says it is, and the digest of its secret."""

    id: str
    digest: str


def new_key() -> str:
    """A key that nobody has: 256 bits of the system's randomness, with a prefix that secret scanners can look for."""
    return f"rgf_{secrets.token_hex(_ID_BYTES)}_{secrets.token_urlsafe(_SECRET_BYTES)}"


def read_key(text: str) -> ShownKey | None:
    """Read what a caller shows; None where it is no key at all.

    One SHA-256 without salt is enough, and cheap at every request: slow hashes protect what people can remember,
    whereas 256 random bits are found from their digest by no dictionary and no search.
    Source: NIST SP 800-63B, 5.1.2.2 (look-up secrets of at least 112 bits of entropy: an approved one-way function).
    """
    found = _KEY.fullmatch(text)
    if found is None:
        return None
    return ShownKey(id=found[1], digest=hashlib.sha256(found[2].encode()).hexdigest())
