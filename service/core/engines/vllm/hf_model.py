"""A Hugging Face checkpoint as a model for vLLM: shapes from its files where they are known, else from config.json."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any

from service.core.checkpoints import Checkpoint
from service.core.engines.vllm.formats import FORMATS
from service.core.engines.vllm.hf_config import ConfigFacts, config_facts
from service.core.engines.vllm.hf_shapes import implied_tensors
from service.core.engines.vllm.hf_tensors import Placed, elements, placed
from service.core.engines.vllm.model import Layer, Matrix, VllmModel
from service.core.problems import Unsupported

# quantisation methods by the name in config.json. Source: layers/quantization/__init__.py:15-50 (vLLM 0.33.0)
_METHODS = {
    "fp8": "FP8", "fbgemm_fp8": "FBGEMM-FP8", "awq": "AWQ", "gptq": "GPTQ", "auto-round": "INT4", "mxfp4": "MXFP4",
    "modelopt_fp4": "NVFP4",
}  # fmt: skip


@lru_cache(maxsize=256)
def checkpoint_model(checkpoint: Checkpoint, name: str) -> VllmModel:
    """The model of a checkpoint, memoised per checkpoint object.

    Raises Unsupported for what no rule is known for, UnreadableModel for a configuration that makes no sense.
    """
    facts, scheme = config_facts(checkpoint.text_config), scheme_of(checkpoint.config)
    tensors = checkpoint.tensors or tuple(implied_tensors(checkpoint.text_config, facts))
    parts = placed(tensors, facts.layers, facts.kv_heads)
    if not checkpoint.tensors:
        parts = _in_format(parts)
    layers = tuple(
        Layer(matrices=matrices, caches=caches) for matrices, caches in zip(parts.layers, facts.caches, strict=True)
    )
    seen: dict[Layer, Layer] = {}
    parameters, active = _parameters(parts, facts, scheme if checkpoint.tensors else "BF16")
    return VllmModel(
        id=checkpoint.id,
        name=name,
        architecture=checkpoint.architecture,
        scheme=scheme,
        layers=tuple(seen.setdefault(layer, layer) for layer in layers),
        first=parts.first,
        last=parts.last,
        tied=not any(matrix.role == "output" for matrix in parts.last),
        hidden_size=facts.hidden_size,
        vocabulary=facts.vocabulary,
        attention_heads=facts.heads,
        kv_heads=facts.kv_heads,
        ff_rows=facts.ff_rows,
        experts=facts.experts,
        experts_used=facts.experts_used,
        expert_rows=facts.expert_rows,
        trained_context_tokens=facts.trained_context_tokens,
        rotary_bytes=2 * facts.trained_context_tokens * facts.head_size,
        is_latent=facts.is_latent,
        has_chunked_attention=any(cache.kind == "chunked" for caches in facts.caches for cache in caches),
        parameters=parameters,
        active_parameters=active,
        derived=None if checkpoint.tensors else f"derived from its config.json and the rules of {scheme}",
    )


def scheme_of(config: Mapping[str, Any]) -> str:
    """The format of a checkpoint; raises Unsupported for a quantisation without a row here."""
    stated = config.get("quantization_config")
    if not isinstance(stated, dict):
        return "BF16"
    method = str(stated.get("quant_method") or "").lower()
    found = _METHODS.get(method)
    if method == "compressed-tensors":
        found = _compressed_format(stated)
    if method == "modelopt":
        found = "NVFP4" if "FP4" in str(stated.get("quant_algo")) else "FP8"
    if found == "FP8" and not stated.get("weight_block_size"):
        found = "FP8-DYNAMIC"
    if found is None:
        raise Unsupported(
            f"The quantization method {method[:40]!r} is not described here: {', '.join(_METHODS)}, compressed-tensors "
            "and modelopt are.",
            fields=("model",),
        )
    return found


def _compressed_format(stated: Mapping[str, Any]) -> str | None:
    """Source: CompressedTensorsConfig, layers/quantization/compressed_tensors (0.33.0)."""
    groups = stated.get("config_groups")
    group = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict):
        return None
    bits, kind = weights.get("num_bits"), weights.get("type")
    if bits == 4:
        return "NVFP4" if kind == "float" else "INT4"
    return {"float": "FP8-DYNAMIC", "int": "INT8"}.get(str(kind)) if bits == 8 else None


def _in_format(parts: Placed) -> Placed:
    """Shapes whose bytes the format decides, where no file states them."""

    def opened(matrices: Sequence[Matrix]) -> tuple[Matrix, ...]:
        return tuple(replace(each, element_bytes=None) for each in matrices)

    return Placed(
        layers=tuple(map(opened, parts.layers)), first=opened(parts.first), last=opened(parts.last)
    )  # fmt: skip


def _parameters(parts: Placed, facts: ConfigFacts, scheme: str) -> tuple[int, int]:
    """All weights, and those that one token passes."""
    bits = FORMATS[scheme].weight_bits
    matrices = [*chain.from_iterable(parts.layers), *parts.first, *parts.last]
    total = elements(matrices, bits)
    routed = elements((each for each in matrices if each.role == "experts"), bits)
    unused = routed - routed * facts.experts_used // facts.experts if facts.experts else 0
    return total, total - unused
