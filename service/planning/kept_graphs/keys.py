"""Names of kept graphs: digests of everything that they depend on."""

import hashlib
import json
from functools import lru_cache
from typing import Any, Final

from service.core.engines.llamacpp.compute.kept_graphs import Description
from service.core.engines.llamacpp.compute.shape_twins import model_description
from service.core.types import LongArray, Model, TensorType
from service.planning.program import digest_of_sources

KEY_BYTES: Final = 20
# moves with the form of what is kept, which the digest of the core's sources does not tell
_FORM: Final = 1


@lru_cache(maxsize=1)
def rules_digest() -> str:
    """Digest of the program's rules, so that what others built by other rules is never taken for this one's.

    To be asked for when the program has just been loaded: its files may be replaced while it runs.
    """
    return digest_of_sources("core")


def key_of(model: Model, *, typed: bool, described: Description) -> bytes:
    """The name of a graph; raises TypeError for a description that is not made of plain values."""
    content = json.dumps(
        [_FORM, rules_digest(), _model_digest(model, typed=typed), described], default=_plain, separators=(",", ":")
    )
    return hashlib.blake2b(content.encode(), digest_size=KEY_BYTES).digest()


@lru_cache(maxsize=256)
def _model_digest(model: Model, *, typed: bool) -> str:
    """Digest of what graphs depend on in a model, made once per model: it has a thousand tensors."""
    content = json.dumps(model_description(model, typed=typed), default=_plain, separators=(",", ":"))
    return hashlib.blake2b(content.encode(), digest_size=KEY_BYTES).hexdigest()


def _plain(value: object) -> Any:
    """What JSON has no form for; objects occur nowhere else."""
    if isinstance(value, LongArray):
        return {"count": value.count}
    if isinstance(value, TensorType):
        return {"type": value.name}
    raise TypeError(f"{type(value).__name__} is no plain value")
