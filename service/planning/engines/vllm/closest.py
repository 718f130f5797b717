"""The same model for the other engine: vLLM's format that is about as large as a GGUF quant, and the reverse."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from service.catalog.model_index import ID_PREFIX
from service.catalog.vllm_models import published_model
from service.contract.model_reference import ModelReference
from service.core.engines.vllm.formats import FORMATS

# by the bits in a quant's name
_BY_QUANT: Final = ((r"B?F16|F32", "BF16"), (r"I?Q8|Q6", "FP8"), (r"", "AWQ"))
_BY_FORMAT: Final[Mapping[int, str]] = MappingProxyType({16: "F16", 8: "Q8_0", 4: "Q4_K_M"})


def closest_format(name: str, quant: str) -> str:
    """A format of vLLM for a GGUF quant: what the maker publishes where it has as many bits, else a usual one."""
    usual = next(each for pattern, each in _BY_QUANT if re.match(pattern, quant, re.IGNORECASE))
    native = published_model(name).native
    return native if FORMATS[native].weight_bits == FORMATS[usual].weight_bits else usual


def for_engine(model: ModelReference, engine: str) -> ModelReference:
    """A reference as an engine takes it; those that state no quant, or one that the engine has, stay as they are."""
    if not isinstance(model, str) or ":" not in model or model.lower().startswith(ID_PREFIX):
        return model
    name, _, quant = model.rpartition(":")
    stated = FORMATS.get(quant.upper())
    if engine == "vllm":
        return model if stated is not None else f"{name}:{closest_format(name, quant)}"
    # MXFP4 is a quant of both engines, and 16-bit weights are under another name
    if stated is None or stated.name.startswith("MXFP4"):
        return model
    return f"{name}:{_BY_FORMAT[stated.weight_bits]}"
