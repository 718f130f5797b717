"""A checkpoint as one JSON document: what it is kept as, and what its identity is the digest of."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from service.core.checkpoints import Checkpoint, CheckpointTensor
from service.core.problems import UnreadableModel


def checkpoint_of(config: Mapping[str, Any], tensors: Iterable[CheckpointTensor]) -> Checkpoint:
    """A checkpoint with the digest of its content as id.

    Raises UnreadableModel where the configuration names no architecture, or a tensor is there twice.
    """
    by_name: dict[str, CheckpointTensor] = {}
    for tensor in tensors:
        if tensor.name in by_name:
            raise UnreadableModel(f"Tensor {tensor.name[:80]!r} is in two files of the checkpoint.")
        by_name[tensor.name] = tensor
    rows = tuple(by_name[name] for name in sorted(by_name))
    try:
        digest = hashlib.sha256(_document(config, rows)).hexdigest()
    except orjson.JSONEncodeError:
        raise UnreadableModel("The config.json is nested too deeply.") from None
    checkpoint = Checkpoint(id=f"sha256:{digest}", config=config, tensors=rows)
    if not checkpoint.architecture:
        raise UnreadableModel("The config.json names no architecture, so it describes no model.")
    return checkpoint


def write_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The document that `read_checkpoint` gives the same checkpoint for."""
    return _document(checkpoint.config, checkpoint.tensors)


def read_checkpoint(document: bytes) -> Checkpoint:
    """A checkpoint from its document."""
    content = orjson.loads(document)
    return checkpoint_of(
        content["config"],
        (CheckpointTensor(name=name, dtype=dtype, shape=tuple(shape)) for name, dtype, shape in content["tensors"]),
    )


def _document(config: Mapping[str, Any], tensors: Iterable[CheckpointTensor]) -> bytes:
    rows = [[tensor.name, tensor.dtype, tensor.shape] for tensor in tensors]
    return orjson.dumps({"config": dict(config), "tensors": rows}, option=orjson.OPT_SORT_KEYS)
