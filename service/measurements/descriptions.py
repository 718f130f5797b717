"""What llama.cpp calls a model: architecture, size class and file type in one line."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

FILE_TYPES: Final[Mapping[str, str]] = {
    "all F32": "F32", "F16": "F16", "BF16": "BF16", "Q1_0": "Q1_0", "Q2_0": "Q2_0", "Q4_0": "Q4_0", "Q4_1": "Q4_1",
    "Q5_0": "Q5_0", "Q5_1": "Q5_1", "Q8_0": "Q8_0", "MXFP4 MoE": "MXFP4_MOE", "NVFP4": "NVFP4",
    "Q2_K - Medium": "Q2_K", "Q2_K - Small": "Q2_K_S", "Q3_K - Small": "Q3_K_S", "Q3_K - Medium": "Q3_K_M",
    "Q3_K - Large": "Q3_K_L", "Q4_K - Small": "Q4_K_S", "Q4_K - Medium": "Q4_K_M", "Q5_K - Small": "Q5_K_S",
    "Q5_K - Medium": "Q5_K_M", "Q6_K": "Q6_K", "TQ1_0 - 1.69 bpw ternary": "TQ1_0",
    "TQ2_0 - 2.06 bpw ternary": "TQ2_0", "IQ2_XXS - 2.0625 bpw": "IQ2_XXS", "IQ2_XS - 2.3125 bpw": "IQ2_XS",
    "IQ2_S - 2.5 bpw": "IQ2_S", "IQ2_M - 2.7 bpw": "IQ2_M", "IQ3_XS - 3.3 bpw": "IQ3_XS",
    "IQ3_XXS - 3.0625 bpw": "IQ3_XXS", "IQ1_S - 1.5625 bpw": "IQ1_S", "IQ1_M - 1.75 bpw": "IQ1_M",
    "IQ4_NL - 4.5 bpw": "IQ4_NL", "IQ4_XS - 4.25 bpw": "IQ4_XS", "IQ3_S - 3.4375 bpw": "IQ3_S",
    "IQ3_S mix - 3.66 bpw": "IQ3_M", "Q2_K": "Q2_K", "MXFP4": "MXFP4_MOE",
}  # fmt: skip
"""File types as they are printed, and as models are named by them.

Source: llama_model_ftype_name, src/llama-model-loader.cpp:36-73 (llama.cpp in llama-cpp-python 0.3.36); builds of 2023
put "mostly" in front and had no "Medium" behind Q2_K.
"""

_GUESSED: Final = re.compile(r" ?\(guessed\) ?")
_ANY_FILE_TYPE: Final = "|".join(re.escape(printed) for printed in sorted(FILE_TYPES, key=len, reverse=True))
_WORDS: Final = re.compile(
    rf"(?P<architecture>\S+)(?: (?P<size>.*?))?(?: (?:mostly )?(?P<file_type>{_ANY_FILE_TYPE}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The parts of a description; quant None where it is not known or was guessed from the tensors."""

    architecture: str
    size_class: str
    quant: str | None


def described(text: str | None) -> Described | None:
    """Part "llama 8B Q4_K - Medium" into its architecture, size class and quantisation."""
    if not text:
        return None
    match = _WORDS.fullmatch(_GUESSED.sub(" ", text).strip())
    if match is None:
        return None
    printed = match["file_type"]
    known = None if printed is None or _GUESSED.search(text) else FILE_TYPES[printed]
    return Described(architecture=match["architecture"], size_class=match["size"] or "", quant=known)
