"""What vLLM refuses at start, with its reason and the way out."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from service.core.engines.vllm.cache_types import CACHE_TYPES
from service.core.engines.vllm.formats import FORMATS, Format
from service.core.engines.vllm.model import Matrix, VllmModel
from service.core.problems import Unsupported
from service.core.types import Gpu

_BACKENDS = ("cuda", "rocm")
_BFLOAT16_CAPABILITY = (8, 0)
_LEAST_CAPABILITY = (7, 5)


def refuse_cards(gpus: Sequence[Gpu], scheme: Format) -> None:
    """Refuse cards that vLLM does not run on, or not with this format.

    Raises Unsupported. Source: get_min_capability of the quantisation configurations; config/vllm.py:926-936 (0.33.0).
    """
    if not gpus:
        raise Unsupported(
            "vLLM is planned for on GPUs: give rig.gpus a card, or ask for engine.name llama.cpp.",
            suggestions=["llama.cpp"],
            fields=("rig.gpus", "engine.name"),
        )
    for gpu in gpus:
        if gpu.backend not in _BACKENDS:
            raise Unsupported(
                f"vLLM does not run on {gpu.slug} through {gpu.backend}, only through {' or '.join(_BACKENDS)}: ask "
                "for engine.name llama.cpp.",
                suggestions=["llama.cpp"],
                fields=("rig.gpus", "engine.name"),
            )
        capability = gpu.compute_capability
        if capability is None:
            continue
        least = max(scheme.least_capability, _LEAST_CAPABILITY)
        if capability < least:
            raise Unsupported(_too_old(gpu, scheme, least), fields=("rig.gpus", "model"))


def _too_old(gpu: Gpu, scheme: Format, least: tuple[int, int]) -> str:
    current = gpu.compute_capability or (0, 0)
    if scheme.method is None or scheme.least_capability < _LEAST_CAPABILITY:
        return (
            f"vLLM's wheels have no kernels for {gpu.slug} (compute capability {_text(current)}): the oldest is "
            f"{_text(_LEAST_CAPABILITY)}. Leave the card out, or ask for engine.name llama.cpp."
        )
    return (
        f"The quantization method {scheme.method} is not supported for the current GPU. Minimum capability: "
        f"{_number(least)}. Current capability: {_number(current)} ({gpu.slug}). Take a format it runs: "
        f"{', '.join(runnable_formats(current))}."
    )


def runnable_formats(capability: tuple[int, int]) -> list[str]:
    """Formats that a card of this compute capability runs."""
    return [name for name, each in FORMATS.items() if max(each.least_capability, _LEAST_CAPABILITY) <= capability]


def refuse_cache_type(name: str, gpus: Sequence[Gpu], *, is_latent: bool) -> None:
    """Refuse a KV cache type that no attention backend of a card reads, or that is not for this attention."""
    row = CACHE_TYPES[name]
    for gpu in gpus:
        if gpu.compute_capability is not None and gpu.compute_capability < row.least_capability:
            raise Unsupported(
                f"A KV cache as {name} needs compute capability {_text(row.least_capability)}, {gpu.slug} has "
                f"{_text(gpu.compute_capability)}: leave engine.kv_cache_dtype null.",
                fields=("engine.kv_cache_dtype",),
            )
    if row.latent_bytes and not is_latent:
        raise Unsupported(
            f"{name} is a cache of latent attention (MLA), which this model does not have.",
            fields=("engine.kv_cache_dtype",),
        )


@lru_cache(maxsize=4096)
def tensor_parallel_refusal(model: VllmModel, tp: int, *, expert_parallel: bool) -> str | None:
    """Why vLLM would not divide a model over `tp` ranks; None where it does.

    Source: config/model.py:1559-1564; layers/linear.py:497,1065-1071,1708; fused_moe/config.py:1352;
    quantization/utils/marlin_utils.py:173-204 and fp8_utils.py:1296-1373 (0.33.0).
    """
    if tp == 1:
        return None
    heads, kv_heads = model.attention_heads, model.kv_heads
    if heads % tp:
        return f"Total number of attention heads ({heads}) must be divisible by tensor parallel size ({tp})."
    if not model.is_latent and kv_heads and (tp % kv_heads if tp >= kv_heads else kv_heads % tp):
        return f"{max(tp, kv_heads)} is not divisible by {min(tp, kv_heads)}: KV heads cannot be shared out over {tp}."
    if model.experts and tp > model.experts and not expert_parallel:
        return f"Tensor parallel size {tp} is greater than the number of experts {model.experts}."
    scheme = FORMATS[model.scheme]
    for matrix in _kinds(model):
        if reason := _matrix_refusal(matrix, scheme, tp, expert_parallel=expert_parallel):
            return reason
    return None


def _kinds(model: VllmModel) -> Iterator[Matrix]:
    """Every matrix once, of blocks that are alike."""
    for layer in dict.fromkeys(model.layers):
        yield from layer.matrices


def _matrix_refusal(matrix: Matrix, scheme: Format, tp: int, *, expert_parallel: bool) -> str | None:
    if matrix.division not in ("column", "row") or (matrix.role == "experts" and expert_parallel):
        return None
    size = matrix.rows if matrix.division == "column" else matrix.columns
    if size % tp:
        return f"{size} is not divisible by {tp} ({matrix.fused})."
    if matrix.columns == 1 or not scheme.holds(matrix) or scheme.method == "mxfp4":
        return None
    share = size // tp
    if matrix.division == "row":
        if scheme.group_columns and share % scheme.group_columns:
            return (
                f"Weight input_size_per_partition = {share} is not divisible by "
                f"{'weight quantization block_k' if scheme.block_rows > 1 else 'group_size'} = {scheme.group_columns} "
                f"({matrix.fused})."
            )
        return None
    if scheme.row_multiple and share % scheme.row_multiple and matrix.rows % scheme.row_multiple == 0:
        what = (
            "The output_size of gate's and up's weight" if matrix.role == "experts" else "Weight output_partition_size"
        )
        return (
            f"{what} = {share} is not divisible by weight quantization block_n = {scheme.row_multiple} "
            f"({matrix.fused})."
        )
    return None


@lru_cache(maxsize=4096)
def possible_tensor_parallel(model: VllmModel, most: int, *, expert_parallel: bool) -> tuple[int, ...]:
    """Sizes up to `most` that a model can be divided by."""
    return tuple(
        size
        for size in range(1, most + 1)
        if tensor_parallel_refusal(model, size, expert_parallel=expert_parallel) is None
    )


def model_dtype(gpus: Sequence[Gpu]) -> str:
    """Type of activations: bfloat16 as published, float16 on cards without it.

    Source: _find_dtype and check_if_supports_dtype, config/model.py:2423-2518, platforms/cuda.py:638-656 (0.33.0).
    """
    capabilities = [gpu.compute_capability for gpu in gpus if gpu.compute_capability is not None]
    old = any(capability < _BFLOAT16_CAPABILITY for capability in capabilities)
    return "float16" if old else "bfloat16"


def _text(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def _number(capability: tuple[int, int]) -> int:
    return 10 * capability[0] + capability[1]
