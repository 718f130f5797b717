"""Models as the catalogue lists them, without their tensors."""

import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Literal, Protocol, TypeAlias

from service.checkpoints.documents import read_checkpoint
from service.core.checkpoints import Checkpoint
from service.core.model_kinds import ModelKind
from service.core.types import Model
from service.gguf.reader import read_header

ModelFormat: TypeAlias = Literal["gguf", "safetensors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model at one quant.

    active_parameters are those one token passes. trained_context_tokens: 0 where there is no such thing.
    aliases: further names, in lower case. is_builtin: ships with this release.
    """

    name: str
    quant: str
    id: str
    architecture: str
    tensor_count: int
    tensor_data_bytes: int
    parameters: int
    active_parameters: int
    trained_context_tokens: int
    kind: ModelKind = "model"
    format: ModelFormat = "gguf"
    aliases: tuple[str, ...] = ()
    is_builtin: bool = True
    source: str | None = None

    @property
    def reference(self) -> str:
        """The reference that names this row: name:quant."""
        return f"{self.name}:{self.quant}"


class ModelSource(Protocol):
    """Where models come from."""

    def revision(self) -> int:
        """Number that moves when the rows change."""

    def rows(self) -> Sequence[ModelRow]:
        """Every model, by name and quant; no header is read."""

    def header_xz(self, row: ModelRow) -> bytes:
        """Manifest of one model, xz-compressed: its GGUF header, or what its format says."""


def parse_header(header_xz: bytes) -> Model:
    """Parse a compressed header, decompressing no further than it goes."""
    with lzma.LZMAFile(BytesIO(header_xz)) as header:
        return read_header(header)


def parse_checkpoint(document_xz: bytes) -> Checkpoint:
    """Parse a compressed checkpoint."""
    return read_checkpoint(lzma.decompress(document_xz))
