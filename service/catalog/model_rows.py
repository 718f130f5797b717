"""Models as the catalogue lists them, without their tensors."""

import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Protocol

from service.core.types import Model
from service.gguf.reader import read_header


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model at one quant.

    active_parameters are those one token passes.
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
        """GGUF header of one model, xz-compressed."""


def parse_header(header_xz: bytes) -> Model:
    """Parse a compressed header, decompressing no further than it goes."""
    with lzma.LZMAFile(BytesIO(header_xz)) as header:
        return read_header(header)
