"""How weights are stored: formats with their bytes, what of a model they quantise, and which cards run them.

Source: model_executor/layers/quantization of vLLM 0.33.0 (get_min_capability of every configuration), and the bytes per
weight of each format's storage; what is left in 16 bits follows the checkpoints that vendors publish.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from service.core.engines.vllm.model import Matrix, Role

DENSE: frozenset[Role] = frozenset({"attention", "feed_forward", "experts", "shared_experts", "state"})
EXPERTS_ONLY: frozenset[Role] = frozenset({"experts"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way to store weights.

    weight_bits: of one element. scale_bits and zero_bits: per group of `group_columns` inputs and `block_rows` outputs
    (0 columns: one group per output). method: name that vLLM gives it, None for 16-bit weights.
    least_capability: compute capability from which on vLLM runs it; native_capability: from which on its arithmetic is
    the card's own, below it weights are widened before they are multiplied.
    row_multiple: what a rank's share of a matrix's outputs must be a multiple of, 0 where any is fine.
    ends_are_whole: the first and the last block are left in 16 bits.
    """

    name: str
    method: str | None
    weight_bits: int
    scale_bits: int = 0
    zero_bits: int = 0
    group_columns: int = 0
    block_rows: int = 1
    quantised: frozenset[Role] = DENSE
    other: str = "BF16"
    least_capability: tuple[int, int] = (6, 0)
    native_capability: tuple[int, int] | None = None
    row_multiple: int = 0
    ends_are_whole: bool = False
    description: str

    def bytes_of(self, rows: int, columns: int) -> int:
        """Bytes of the weights of one matrix, without scales."""
        return rows * columns * self.weight_bits // 8

    def scale_bytes_of(self, rows: int, columns: int) -> int:
        """Bytes of its scales and zero points."""
        groups = -(-columns // (self.group_columns or columns)) * -(-rows // self.block_rows)
        return groups * (self.scale_bits + self.zero_bits) // 8

    def holds(self, matrix: Matrix) -> bool:
        """Whether a matrix of the model is quantised; else it is stored as `other`."""
        return matrix.role in self.quantised


_FORMATS = (
    Format(name="BF16", method=None, weight_bits=16, quantised=frozenset(), least_capability=(6, 0),
           description="16-bit weights as published"),
    Format(name="FP8", method="fp8", weight_bits=8, scale_bits=32, group_columns=128, block_rows=128,
           least_capability=(7, 5), native_capability=(8, 9), row_multiple=128,
           description="8-bit floats with a scale per block of 128 by 128"),
    Format(name="FP8-DYNAMIC", method="compressed-tensors", weight_bits=8, scale_bits=32,
           least_capability=(7, 5), native_capability=(8, 9),
           description="8-bit floats with a scale per output"),
    Format(name="FBGEMM-FP8", method="fbgemm_fp8", weight_bits=8, scale_bits=32,
           quantised=frozenset({"feed_forward", "experts", "shared_experts"}),
           least_capability=(8, 0), native_capability=(8, 9), ends_are_whole=True,
           description="8-bit floats in the feed-forward layers but for the first and the last block"),
    Format(name="INT8", method="compressed-tensors", weight_bits=8, scale_bits=16,
           least_capability=(7, 5), native_capability=(7, 5),
           description="8-bit integers with a scale per output"),
    Format(name="AWQ", method="awq_marlin", weight_bits=4, scale_bits=16, zero_bits=4, group_columns=128,
           least_capability=(7, 5),
           description="4-bit integers in groups of 128 with scale and zero point"),
    Format(name="GPTQ", method="gptq_marlin", weight_bits=4, scale_bits=16, zero_bits=4, group_columns=128,
           least_capability=(7, 5),
           description="4-bit integers in groups of 128 with scale and zero point"),
    Format(name="INT4", method="compressed-tensors", weight_bits=4, scale_bits=16, group_columns=128,
           least_capability=(7, 5),
           description="4-bit integers in groups of 128 with a scale"),
    Format(name="INT4-EXPERTS", method="compressed-tensors", weight_bits=4, scale_bits=16, group_columns=32,
           quantised=EXPERTS_ONLY, least_capability=(7, 5),
           description="4-bit integers in groups of 32 with a scale in the experts, everything else in 16 bits"),
    Format(name="NVFP4", method="modelopt_fp4", weight_bits=4, scale_bits=8, group_columns=16,
           least_capability=(7, 5), native_capability=(10, 0),
           description="4-bit floats in groups of 16 with an 8-bit scale"),
    Format(name="MXFP4", method="mxfp4", weight_bits=4, scale_bits=8, group_columns=32, quantised=EXPERTS_ONLY,
           least_capability=(8, 0), native_capability=(10, 0),
           description="4-bit floats in groups of 32 in the experts, everything else in 16 bits"),
    Format(name="MXFP4-FP8", method="mxfp4", weight_bits=4, scale_bits=8, group_columns=32, quantised=EXPERTS_ONLY,
           other="FP8", least_capability=(8, 0), native_capability=(10, 0),
           description="4-bit floats in groups of 32 in the experts, 8-bit floats elsewhere"),
)  # fmt: skip
FORMATS: Mapping[str, Format] = MappingProxyType({each.name: each for each in _FORMATS})
