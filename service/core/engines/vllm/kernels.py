"""What kernels ask of shapes: experts in MXFP4 are padded to what their kernel can multiply."""

from service.core.engines.vllm.formats import Format
from service.core.engines.vllm.model import Matrix
from service.core.units import pad

# rows and columns of an expert's inner and hidden dimension by the kernel that capability chooses
_MARLIN = (128, 256)
_BLACKWELL = (128, 256)
_HOPPER = (64, 256)


def padded_expert_shape(
    matrix: Matrix, rows: int, columns: int, storage: Format, capability: tuple[int, int] | None
) -> tuple[int, int]:
    """Rows and columns of one expert's matrix on a rank, padded for MXFP4 kernels.

    Gate and up have the inner dimension as rows and the hidden one as columns, down the other way round.
    Source: layers/fused_moe/oracle/mxfp4.py:837-911 (0.33.0).
    """
    if storage.method != "mxfp4" or columns == 1:
        return rows, columns
    inner, hidden = _multiples(capability)
    if matrix.division == "row":
        return pad(rows, hidden), pad(columns, inner)
    return pad(rows, inner), pad(columns, hidden)


def _multiples(capability: tuple[int, int] | None) -> tuple[int, int]:
    if capability is not None and capability[0] == 10:
        return _BLACKWELL
    return _HOPPER if capability is not None and capability[0] == 9 else _MARLIN
