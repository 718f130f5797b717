"""A GGUF header as the checkpoint vLLM would load: the same shapes, stored in another format."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.engines.vllm.extras import NO_EXTRAS, Extras
from service.core.engines.vllm.model import Layer, LayerCache, Matrix, StateShape, VllmModel
from service.core.engines.vllm.parameters import FUSED_QKV, Parameter, parameter_of
from service.core.model_facts import model_facts
from service.core.problems import Unsupported
from service.core.types import Model, Tensor

# families whose caches have rules here; others are refused rather than guessed
_STATE_FAMILIES = frozenset({"mamba2", "delta_net"})
_CACHES = frozenset({"full", "windowed", "recurrent", "hybrid", "latent"})
_FLOAT_STATE = frozenset({"qwen35", "qwen35moe"})
"""Architectures whose configuration keeps the recurrent state in float32. Source: models/config.py:953-975."""


@lru_cache(maxsize=256)
def derived_model(model: Model, scheme: str, extras: Extras = NO_EXTRAS) -> VllmModel:
    """The checkpoint of `model` in the format `scheme`, memoised per model object.

    Raises Unsupported for an architecture or a tensor that no rule of vLLM's loading is known for.
    """
    hp = read_hparams(model)
    _refuse_unknown(model, hp)
    by_layer, first, last = _grouped(model, hp)
    layers = tuple(_layer(hp, il, tensors) for il, tensors in enumerate(by_layer))
    facts = model_facts(model)
    return VllmModel(
        id=model.id,
        name=model.name,
        architecture=model.architecture,
        scheme=scheme,
        layers=_interned(layers),
        first=tuple(first),
        last=tuple(last),
        tied=not any(matrix.role == "output" for matrix in last),
        hidden_size=hp.n_embd,
        vocabulary=hp.n_vocab,
        attention_heads=max(hp.n_head),
        kv_heads=max(hp.n_head_kv),
        ff_rows=max(hp.n_ff),
        experts=hp.n_expert,
        experts_used=max(hp.n_expert_used),
        expert_rows=max(hp.n_ff_exp) or (max(hp.n_ff) if hp.n_expert else 0),
        trained_context_tokens=hp.n_ctx_train,
        rotary_bytes=_rotary_bytes(hp, extras),
        is_latent=bool(hp.n_lora_kv),
        has_chunked_attention=hp.swa_type == "chunked",
        vision=extras.vision,
        parameters=facts.parameters,
        active_parameters=facts.active_parameters,
        derived=f"derived from the shapes of a GGUF header ({model.name}:{model.quant}) and the rules of {scheme}",
    )


def _refuse_unknown(model: Model, hp: Hparams) -> None:
    state = hp.arch.state
    odd = state is not None and state.family not in _STATE_FAMILIES and any(hp.is_recr)
    if odd or any(hp.dsv4_compress_ratios) or hp.n_embd_head_kda or not hp.causal_attn or hp.wkv_head_size:
        raise Unsupported(
            f"How vLLM caches {model.architecture} is not described here: ask for engine.name llama.cpp.",
            suggestions=["llama.cpp"],
            fields=("model", "engine.name"),
        )


def _grouped(model: Model, hp: Hparams) -> tuple[list[list[Tensor]], list[Matrix], list[Matrix]]:
    """Tensors by trunk layer, and the parameters of the first and the last stage."""
    by_layer: list[list[Tensor]] = [[] for _ in range(hp.n_layer)]
    first: list[Matrix] = []
    last: list[Matrix] = []
    for tensor in model.tensors:
        if tensor.name.startswith("blk."):
            il = int(tensor.name.split(".", 2)[1])
            if il < hp.n_layer:
                by_layer[il].append(tensor)
            continue
        matrix = _matrix(tensor, _parameter(tensor, model.architecture), 0)
        (last if tensor.name.startswith("output") else first).append(matrix)
    return by_layer, first, last


def _parameter(tensor: Tensor, architecture: str) -> Parameter:
    found = parameter_of(tensor.name)
    if found is None:
        raise Unsupported(
            f"Where vLLM keeps {tensor.name} of {architecture} is not described here: ask for engine.name llama.cpp.",
            suggestions=["llama.cpp"],
            fields=("model", "engine.name"),
        )
    return found


def _layer(hp: Hparams, il: int, tensors: Sequence[Tensor]) -> Layer:
    matrices = [matrix for tensor in tensors for matrix in _matrices(hp, il, tensor)]
    return Layer(matrices=tuple(matrices), caches=tuple(_caches(hp, il)))


def _matrices(hp: Hparams, il: int, tensor: Tensor) -> Iterator[Matrix]:
    name = tensor.name.split(".", 2)[2]
    if name.startswith(FUSED_QKV):
        yield from _fused_qkv(hp, il, tensor)
        return
    if name.startswith("nextn."):
        return
    parameter = _parameter(tensor, hp.arch.name)
    if name.startswith("attn_gate") and not hp.is_recr[il]:
        parameter = Parameter("gate", "attention", "column")
    parts = hp.n_head_kv[il] if parameter.division == "kv_heads" else 0
    if parameter.fused in ("qkv", "o", "q_b", "kv_b") and parameter.division != "kv_heads":
        parts = hp.n_head[il]
    yield _matrix(tensor, parameter, parts)


def _fused_qkv(hp: Hparams, il: int, tensor: Tensor) -> Iterator[Matrix]:
    """A tensor of queries, keys and values together: the state's of a hybrid layer, or attention's three parts."""
    if hp.is_recr[il]:
        yield _matrix(tensor, Parameter("in_proj_qkvz", "state", "column"), 0)
        return
    columns = tensor.shape[0]
    kv_rows = hp.n_embd_k_gqa(il) + hp.n_embd_v_gqa(il)
    rows = tensor.shape[1] - kv_rows
    yield Matrix(fused="qkv", role="attention", division="column", rows=rows, columns=columns, parts=hp.n_head[il])
    yield Matrix(
        fused="qkv", role="attention", division="kv_heads", rows=kv_rows, columns=columns, parts=hp.n_head_kv[il]
    )


def _matrix(tensor: Tensor, parameter: Parameter, parts: int) -> Matrix:
    """A tensor's shape with rows as outputs; vectors have one column."""
    shape = tensor.shape
    is_expert = parameter.role == "experts"
    copies = shape[-1] if is_expert and len(shape) > 1 else 1
    inner = shape[:-1] if is_expert and len(shape) > 1 else shape
    columns, rows = (inner[0], 1) if len(inner) == 1 else (inner[0], inner[1])
    if len(inner) == 3:
        rows *= inner[2]
    bias = len(inner) == 1
    if bias:
        columns, rows = rows, columns
    return Matrix(
        fused=parameter.fused,
        role="norm" if bias and parameter.role not in ("router", "state_gates") else parameter.role,
        # the bias of a matrix that is divided by its inputs is added once, by every rank that holds it whole
        division="replicated" if bias and parameter.division == "row" else parameter.division,
        rows=rows,
        columns=columns,
        copies=copies,
        parts=parts,
        element_bytes=parameter.element_bytes,
    )


def _caches(hp: Hparams, il: int) -> Iterator[LayerCache]:
    if hp.is_recr[il]:
        yield LayerCache(kind="state", state=_state(hp))
        if hp.arch.name != "falcon-h1":
            return
    if not hp.has_kv(il) or not (hp.n_head_kv[il] or hp.n_lora_kv):
        return
    if hp.n_lora_kv:
        indexer = hp.indexer_head_size if hp.indexer_n_head else 0
        yield LayerCache(kind="latent", kv_heads=1, head_size_k=hp.n_lora_kv + hp.n_rot_full, indexer_head_size=indexer)
        return
    windowed = hp.is_swa[il] and hp.n_swa > 0
    yield LayerCache(
        kind=("chunked" if hp.swa_type == "chunked" else "sliding") if windowed else "full",
        kv_heads=hp.n_head_kv[il],
        head_size_k=hp.n_embd_head_k(il),
        head_size_v=hp.n_embd_head_v(il),
        window_tokens=hp.n_swa if windowed else 0,
    )


def _state(hp: Hparams) -> StateShape:
    """State of a gated delta net or of Mamba 2: a convolution's window, and a matrix per head.

    Source: gated_delta_net_state_shape and mamba2_state_shape, model_executor/layers/mamba/mamba_utils.py (0.33.0).
    """
    return StateShape(
        conv_channels=hp.ssm_d_inner + 2 * hp.ssm_n_group * hp.ssm_d_state,
        conv_length=hp.ssm_d_conv - 1,
        recurrent_elements=hp.ssm_d_state * hp.ssm_d_inner,
        recurrent_element_bytes=4 if hp.arch.name in _FLOAT_STATE else 0,
    )


def _rotary_bytes(hp: Hparams, extras: Extras) -> int:
    """Tables of cosines and sines, one row per position and one table per kind of layer.

    Source: _compute_cos_sin_cache of RotaryEmbedding, LinearScalingRotaryEmbedding (positions times the factor) and
    MRotaryEmbedding (four times the positions), model_executor/layers/rotary_embedding (0.33.0).
    """
    positions = hp.n_ctx_train * (4 if hp.n_pos_per_embd > 1 else 1)
    tables = round(positions * extras.rotary_factor) * hp.n_rot_full
    if any(hp.is_swa) and hp.n_swa > 0 and extras.has_window_rotary:
        tables += positions * hp.n_rot_swa
    return 2 * tables


def _interned(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Equal layers as one object, so that what is remembered per layer is made once."""
    seen: dict[Layer, Layer] = {}
    return tuple(seen.setdefault(layer, layer) for layer in layers)
