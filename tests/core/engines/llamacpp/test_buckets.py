"""Which slots ask for each tensor."""

import pytest

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.buckets import INPUT, buckets
from service.core.engines.llamacpp.slots import CPU, split_slots
from service.core.engines.llamacpp.weights import place_weights, weight_layout
from service.core.problems import Unsupported
from service.core.tensor_types import TENSOR_TYPES
from service.core.types import MetadataValue, Model, Tensor
from tests.models import load_architecture_model, load_model
from tests.shapes import LLAMA, model

F32 = TENSOR_TYPES[0]


def tensor(name: str, *shape: int) -> Tensor:
    """An f32 tensor."""
    size = 4
    for extent in shape:
        size *= extent
    return Tensor(name=name, type=F32, shape=shape, size_bytes=size)


def made_up(architecture: str, *tensors: Tensor, **metadata: MetadataValue) -> Model:
    """A four-block model of these tensors."""
    return model(architecture, {**LLAMA, **metadata}, tensors)


def slots_of(model: Model) -> dict[str, int]:
    """Slot of every tensor that one slot asks for."""
    return {loaded.tensor.name: loaded.slot for loaded in buckets(model, read_hparams(model)).loaded}


def test_blocks_input_and_output() -> None:
    """Block tensors go to their block, look-up tables to the input, the head and its norm to the output layer."""
    slots = slots_of(
        made_up(
            "llama",
            tensor("token_embd.weight", 256, 32),
            tensor("blk.2.attn_q.weight", 256, 256),
            tensor("output_norm.weight", 256),
            tensor("output.weight", 256, 32),
        )
    )
    assert slots == {"token_embd.weight": INPUT, "blk.2.attn_q.weight": 2, "output_norm.weight": 4, "output.weight": 4}


def test_tensors_of_repeating_kind_without_a_block_belong_to_the_first() -> None:
    """Gemma 3n's per-layer projection is created with block 0, its table stays on the host."""
    slots = slots_of(load_model("gemma-3n-e4b:Q4_K_M"))
    assert slots["per_layer_model_proj.weight"] == 0
    assert slots["per_layer_proj_norm.weight"] == 0
    assert slots["per_layer_token_embd.weight"] == INPUT


def test_the_norm_lfm2_calls_by_the_embeddings_name_is_its_output_norm() -> None:
    """token_embd_norm is the output norm in LFM2 and a norm of block 0 elsewhere."""
    lfm2 = load_model("lfm2-8b-a1b:Q4_K_M")
    assert slots_of(lfm2)["token_embd_norm.weight"] == read_hparams(lfm2).n_layer_all
    bloom = load_architecture_model("bloom-dense")
    assert slots_of(bloom)["token_embd_norm.weight"] == 0


def test_draft_blocks_stay_in_the_file_unless_asked_for() -> None:
    """Tensors of trailing draft blocks are left out, but for those whose loader forgets to."""
    glm = load_model("glm-5:Q4_K_M")
    hp = read_hparams(glm)
    draft = {name for name in glm.tensor_by_name if name.startswith(f"blk.{hp.n_layer}.")}
    unused = {tensor.name for tensor in buckets(glm, hp).unused}
    assert draft - unused == {f"blk.{hp.n_layer}.exp_probs_b.bias"}
    assert buckets(glm, hp, load_mtp=True).unused == ()


def test_tied_embeddings_are_asked_for_by_input_and_output() -> None:
    """A file without output.weight shares the embedding; one with it does not."""
    tied = load_model("llama-3.2-1b:Q4_K_M")
    names = {shared.tensor.name: shared.slots for shared in buckets(tied, read_hparams(tied)).shared}
    assert names["token_embd.weight"] == (INPUT, 16)
    untied = load_model("llama-3.3-70b:Q4_K_M")
    assert "token_embd.weight" not in {s.tensor.name for s in buckets(untied, read_hparams(untied)).shared}


def test_a_loader_that_makes_the_tied_copy_first_keeps_both_on_the_host() -> None:
    """Gemma 4 on the host alone holds its embedding twice; Gemma 3 once."""
    for reference, copies in (("gemma-4-e4b:Q4_K_M", 2), ("gemma-3-4b:Q4_K_M", 1)):
        parsed = load_model(reference)
        hp = read_hparams(parsed)
        host = place_weights(weight_layout(parsed, hp), split_slots(hp.n_layer_all, 0, ()), ()).host
        embedding = parsed.tensor_by_name["token_embd.weight"].size_bytes
        whole = sum(tensor.size_bytes for tensor in parsed.tensors)
        assert 0 <= host.weights_bytes - whole - (copies - 1) * embedding < 32 * len(parsed.tensors)


def test_codeshell_without_an_embedding_holds_its_output_twice() -> None:
    """The loader takes the output matrix for both, as two tensors in one buffer."""
    parsed = made_up("codeshell", tensor("output.weight", 256, 32), tensor("output_norm.weight", 256))
    hp = read_hparams(parsed)
    placed = place_weights(weight_layout(parsed, hp), split_slots(4, 5, (1.0,)), ("rpc",))
    assert placed.devices[0].weights_bytes == 2 * 256 * 32 * 4 + 1024


def test_rope_factors_are_held_once_per_device_with_layers_that_ask() -> None:
    """Every device with a trunk block gets a copy of rope_freqs, a device with the output layer alone does not."""
    parsed = made_up("llama", tensor("rope_freqs.weight", 32), tensor("blk.0.attn_norm.weight", 256))
    hp = read_hparams(parsed)
    placed = place_weights(weight_layout(parsed, hp), split_slots(4, 5, (2.0, 2.0, 1.0)), ("rpc",) * 3)
    assert [device.weights_bytes for device in placed.devices] == [1024 + 128, 128, 0]


def test_a_tensor_without_a_place_is_refused() -> None:
    """llama.cpp refuses files with tensors it has no use for, and so does a plan."""
    for name in ("blk.0.surprise.weight", "blk.9.attn_q.weight", "mystery"):
        parsed = made_up("llama", tensor(name, 256))
        with pytest.raises(Unsupported, match="has no place"):
            buckets(parsed, read_hparams(parsed))


def test_a_tensor_that_is_never_used_is_not_loaded() -> None:
    """T5's cross-attention position bias is in files and never allocated."""
    parsed = made_up(
        "t5", tensor("dec.blk.0.cross_attn_rel_b.weight", 8, 32), tensor("dec.blk.0.attn_rel_b.weight", 8, 32)
    )
    sorted_tensors = buckets(parsed, read_hparams(parsed))
    assert [unused.name for unused in sorted_tensors.unused] == ["dec.blk.0.cross_attn_rel_b.weight"]
    assert [loaded.slot for loaded in sorted_tensors.loaded] == [0]


def test_a_weight_the_backend_cannot_use_stays_on_the_host() -> None:
    """A ternary matrix goes to main memory on CUDA and to the card on Vulkan."""
    ternary = TENSOR_TYPES[35]
    weight = Tensor(name="blk.1.ffn_up.weight", type=ternary, shape=(256, 512), size_bytes=ternary.row_bytes(256) * 512)
    parsed = made_up("llama", weight)
    hp = read_hparams(parsed)
    slots = split_slots(4, 5, (1.0,))
    on_cuda = place_weights(weight_layout(parsed, hp), slots, ("cuda",))
    assert (on_cuda.devices[0].weights_bytes, on_cuda.host.weights_bytes) == (0, weight.size_bytes)
    on_vulkan = place_weights(weight_layout(parsed, hp), slots, ("vulkan",))
    assert (on_vulkan.devices[0].weights_bytes, on_vulkan.host.weights_bytes) == (weight.size_bytes, 0)
    assert slots.range_of(CPU) == (0, 0)
