"""The identity of a model: what it is, not how its file is written."""

import hashlib
import json
from collections.abc import Iterable, Mapping

from service.core.types import LongArray, MetadataValue, Tensor


def model_id(metadata: Mapping[str, MetadataValue], tensors: Iterable[Tensor]) -> str:
    """Digest ("sha256:…") of metadata and tensor table in canonical form, both sorted by name.

    Equal for the same model in either byte order or version, whole or split; long arrays count by their
    length alone, as their elements are not kept.
    """
    described = json.dumps(
        {key: _canonical(value) for key, value in metadata.items()},
        ensure_ascii=True,
        separators=(",", ":"),
        sort_keys=True,
    )
    rows = sorted(f"{tensor.name}\t{tensor.type.id}\t{tensor.shape}" for tensor in tensors)
    digest = hashlib.sha256("\n".join([described, *rows]).encode())
    return f"sha256:{digest.hexdigest()}"


def _canonical(value: MetadataValue) -> object:
    if isinstance(value, LongArray):
        return {"count": value.count}
    return value
