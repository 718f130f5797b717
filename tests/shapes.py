"""Small made-up models, by their metadata alone."""

from collections.abc import Mapping

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.types import MetadataValue, Model, Tensor

LLAMA: Mapping[str, MetadataValue] = {
    "block_count": 4,
    "context_length": 8192,
    "embedding_length": 256,
    "feed_forward_length": 512,
    "attention.head_count": 8,
    "attention.head_count_kv": 2,
}


def model(architecture: str, metadata: Mapping[str, MetadataValue], tensors: tuple[Tensor, ...] = ()) -> Model:
    """A model with these keys of its architecture."""
    return Model(
        id="test",
        name=None,
        quant=None,
        architecture=architecture,
        metadata={f"{architecture}.{suffix}": value for suffix, value in metadata.items()},
        tensors=tensors,
        tensor_by_name={tensor.name: tensor for tensor in tensors},
    )


def shape(architecture: str, **changes: MetadataValue) -> Hparams:
    """Shape of a four-layer model of that architecture with keys changed ("__" for the dot)."""
    return read_hparams(
        model(architecture, {**LLAMA, **{key.replace("__", "."): value for key, value in changes.items()}})
    )
