"""Memory that CUDA and ROCm take while the engine runs, beside the buffers that llama.cpp reserves."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.buckets import buckets
from service.core.engines.llamacpp.context import ContextNumbers
from service.core.types import Backend, Model
from service.core.units import MIB, pad

POOLED_BACKENDS: Final[frozenset[Backend]] = frozenset({"cuda", "rocm"})
GRANULARITY_BYTES: Final = 2 * MIB
# activations are quantised to q8_1 (36 bytes per 32 values), rows padded to 512 values
QUANTISED_ROW_VALUES: Final = 512
QUANTISED_BYTES: Final = 36
QUANTISED_VALUES: Final = 32
FLOAT_TYPES: Final = frozenset({"f16", "bf16", "f32"})


def runtime_pool_bytes(model: Model, hp: Hparams, ctx: ContextNumbers, backend: Backend) -> int:
    """Bytes of the pool for one matrix product at a time, 0 for backends without one.

    The widest product counts: its input quantised to q8_1 for quantised weights, input and output as f16 for floating
    ones; routed experts have a row per token and expert used.

    Source: ggml_cuda_mul_mat_q, ggml/src/ggml-cuda/mmq.cu:184-262; ggml_cuda_op_mul_mat_cublas and
    ggml_cuda_pool_vmm, ggml-cuda.cu:538-600 and 1430-1525 (llama.cpp in llama-cpp-python 0.3.36).
    """
    return _pool_bytes(model, hp, ctx.n_tokens, ctx.n_outputs) if backend in POOLED_BACKENDS else 0


@lru_cache(maxsize=1024)
def _pool_bytes(model: Model, hp: Hparams, n_tokens: int, n_outputs: int) -> int:
    widest = max((_product_bytes(product, n_tokens, n_outputs) for product in _products(model, hp)), default=0)
    return pad(widest, GRANULARITY_BYTES)


@dataclass(frozen=True, slots=True)
class _Product:
    """A matrix product: elements of an input and an output row, rows per token, and what its weights are."""

    inputs: int
    outputs: int
    rows_per_token: int
    is_float: bool
    is_output_layer: bool


@lru_cache(maxsize=256)
def _products(model: Model, hp: Hparams) -> frozenset[_Product]:
    """The different products of a model; its blocks repeat them."""
    used = max(hp.n_expert_used, default=1)
    return frozenset(
        _Product(
            inputs=loaded.tensor.shape[0],
            outputs=loaded.tensor.shape[1] if len(loaded.tensor.shape) > 1 else 1,
            rows_per_token=used if loaded.op == "mul_mat_id" else 1,
            is_float=loaded.tensor.type.name in FLOAT_TYPES,
            is_output_layer=loaded.slot == hp.n_layer_all,
        )
        for loaded in buckets(model, hp).loaded
        if loaded.op in ("mul_mat", "mul_mat_id")
    )


def _product_bytes(product: _Product, n_tokens: int, n_outputs: int) -> int:
    rows = n_outputs if product.is_output_layer else n_tokens * product.rows_per_token
    if product.is_float:
        return 2 * rows * (product.inputs + product.outputs)
    return rows * pad(product.inputs, QUANTISED_ROW_VALUES) * QUANTISED_BYTES // QUANTISED_VALUES
