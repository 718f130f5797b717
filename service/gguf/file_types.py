"""The name of a model's quantisation."""

from collections import Counter
from collections.abc import Iterable, Mapping

from service.core.types import MetadataValue, Tensor

FILE_TYPE_NAMES: Mapping[int, str] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
    41: "Q2_0",
}
"""Values of `general.file_type`. Source: enum llama_ftype, include/llama.h:117-162 (llama.cpp in llama-cpp-python
0.3.36)."""


def quant_name(metadata: Mapping[str, MetadataValue], tensors: Iterable[Tensor]) -> str | None:
    """The mix `general.file_type` names, else the type that holds most bytes; None without tensors."""
    file_type = metadata.get("general.file_type")
    if isinstance(file_type, int) and file_type in FILE_TYPE_NAMES:
        return FILE_TYPE_NAMES[file_type]
    bytes_by_type: Counter[str] = Counter()
    for tensor in tensors:
        bytes_by_type[tensor.type.name] += tensor.size_bytes
    if not bytes_by_type:
        return None
    return bytes_by_type.most_common(1)[0][0].upper()
