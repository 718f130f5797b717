"""Checkpoints as Hugging Face publishes them: a configuration and safetensors, for engines that load those."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Any

SAFETENSORS_BITS: Mapping[str, int] = MappingProxyType(
    {
        "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
        "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
        "C64": 64,
    }
)  # fmt: skip
"""Bits of one element by safetensors' name of the type. Source: enum Dtype, safetensors 0.6, src/tensor.rs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTensor:
    """One tensor of a checkpoint; `shape` as PyTorch has it, the contiguous dimension last."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of its data."""
        return prod(self.shape) * SAFETENSORS_BITS[self.dtype] // 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """A checkpoint: config.json as it stands, and the tensors of all its files by name, none where only it was given.

    Identity is `id`, the digest of both.
    """

    id: str
    config: Mapping[str, Any] = field(repr=False)
    tensors: tuple[CheckpointTensor, ...] = field(repr=False)

    @property
    def architecture(self) -> str:
        """Class that runs it, as `architectures` names it, else `model_type`; "" where neither is there."""
        named = self.config.get("architectures")
        first = named[0] if isinstance(named, list) and named else self.config.get("model_type")
        return first if isinstance(first, str) else ""

    @property
    def quant(self) -> str:
        """How its weights are stored: the method of its quantisation, else the type of its elements."""
        quantisation = self.config.get("quantization_config")
        method = quantisation.get("quant_method") if isinstance(quantisation, dict) else None
        stated = method or self.text_config.get("dtype") or self.text_config.get("torch_dtype")
        return stated if isinstance(stated, str) else "unstated"

    @property
    def text_config(self) -> Mapping[str, Any]:
        """Configuration of the language model, which multimodal models nest."""
        nested = self.config.get("text_config")
        return {**self.config, **nested} if isinstance(nested, dict) else self.config

    @property
    def trained_context_tokens(self) -> int:
        """Longest context it was trained for; 0 where the configuration does not say."""
        stated = self.text_config.get("max_position_embeddings")
        return stated if isinstance(stated, int) and not isinstance(stated, bool) and stated > 0 else 0

    @property
    def tensor_data_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size_bytes for tensor in self.tensors)

    @property
    def parameters(self) -> int:
        """Elements of all tensors; 0 where a quantisation packs several into one element."""
        if isinstance(self.config.get("quantization_config"), dict):
            return 0
        return sum(prod(tensor.shape) for tensor in self.tensors)
