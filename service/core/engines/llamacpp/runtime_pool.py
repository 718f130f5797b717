"""Memory that CUDA and ROCm take while the engine runs, beside the buffers that llama.cpp reserves."""

from functools import lru_cache
from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.buckets import LoadedTensor, buckets
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


@lru_cache(maxsize=1024)
def runtime_pool_bytes(model: Model, hp: Hparams, ctx: ContextNumbers, backend: Backend) -> int:
    """Bytes of the pool for one matrix product at a time, 0 for backends without one.

    The widest product counts: its input quantised to q8_1 for quantised weights, input and output as f16 for floating
    ones; routed experts have a row per token and expert used.

    Source: ggml_cuda_mul_mat_q, ggml/src/ggml-cuda/mmq.cu:184-262; ggml_cuda_op_mul_mat_cublas and
    ggml_cuda_pool_vmm, ggml-cuda.cu:538-600 and 1430-1525 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if backend not in POOLED_BACKENDS:
        return 0
    products = [each for each in buckets(model, hp).loaded if each.op in ("mul_mat", "mul_mat_id")]
    widest = max((_product_bytes(each, hp, ctx) for each in products), default=0)
    return pad(widest, GRANULARITY_BYTES)


def _product_bytes(loaded: LoadedTensor, hp: Hparams, ctx: ContextNumbers) -> int:
    inputs, outputs = loaded.tensor.shape[0], loaded.tensor.shape[1] if len(loaded.tensor.shape) > 1 else 1
    rows = ctx.n_outputs if loaded.slot == hp.n_layer_all else ctx.n_tokens
    if loaded.op == "mul_mat_id":
        rows *= max(hp.n_expert_used, default=1)
    if loaded.tensor.type.name in FLOAT_TYPES:
        return 2 * rows * (inputs + outputs)
    return rows * pad(inputs, QUANTISED_ROW_VALUES) * QUANTISED_BYTES // QUANTISED_VALUES
