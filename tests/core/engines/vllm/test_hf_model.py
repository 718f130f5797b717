"""A checkpoint's config.json and tensors give the model that a GGUF header of it gives."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.checkpoints.documents import checkpoint_of
from service.core.checkpoints import Checkpoint, CheckpointTensor
from service.core.engines.vllm.cache_types import CACHE_TYPES
from service.core.engines.vllm.hf_config import config_facts
from service.core.engines.vllm.hf_model import checkpoint_model, scheme_of
from service.core.engines.vllm.hf_shapes import implied_tensors
from service.core.engines.vllm.kv_cache import CacheRules, cache_plan
from service.core.engines.vllm.layer_sums import layer_sums
from service.core.engines.vllm.model import VllmModel
from service.core.engines.vllm.weights import Sharding
from service.core.problems import UnreadableModel, Unsupported
from tests.core.engines.vllm.configs import CONFIGS
from tests.core.engines.vllm.models import checkpoint

BF16 = CacheRules(tensor_parallel=1, cache=CACHE_TYPES["bfloat16"])


def stored_bytes(model: VllmModel, tensor_parallel: int) -> int:
    """Weights of a rank without tables of rotary embeddings."""
    sharding = Sharding(tensor_parallel=tensor_parallel, expert_tensor_parallel=tensor_parallel)
    return layer_sums(model, sharding).stage(range(len(model.layers))).stored_bytes - model.rotary_bytes


def with_tensors(config: Mapping[str, Any]) -> Checkpoint:
    """A checkpoint whose files hold what its configuration implies."""
    return checkpoint_of(dict(config), implied_tensors(config, config_facts(config)))


@pytest.mark.parametrize("name", CONFIGS)
def test_the_configuration_alone_gives_the_catalogue_s_weights(name: str) -> None:
    """Within a thousandth, on one rank and on two; what is left are biases, norms and gates."""
    model = checkpoint_model(checkpoint_of(CONFIGS[name], ()), name)
    for ranks in (1, 2) if name != "gemma-3-1b" else (1,):
        assert stored_bytes(model, ranks) == pytest.approx(stored_bytes(checkpoint(name), ranks), rel=0.001)
    assert model.parameters == pytest.approx(checkpoint(name).parameters, rel=0.001)
    assert model.active_parameters == pytest.approx(checkpoint(name).active_parameters, rel=0.01)


@pytest.mark.parametrize("name", CONFIGS)
def test_files_weigh_what_they_hold(name: str) -> None:
    """Tensors of the files are taken as they are, and come to the same."""
    content = with_tensors(CONFIGS[name])
    model = checkpoint_model(content, name)
    assert stored_bytes(model, 1) == pytest.approx(content.tensor_data_bytes, rel=1e-6)
    assert model.derived is None


@pytest.mark.parametrize("name", CONFIGS)
def test_caches_are_the_catalogue_s(name: str) -> None:
    """Blocks cost the same, and a request takes as many."""
    here, there = checkpoint_model(checkpoint_of(CONFIGS[name], ()), name), checkpoint(name)
    plans = [cache_plan(model, BF16) for model in (here, there)]
    assert plans[0].block_bytes() == plans[1].block_bytes()
    assert plans[0].request_blocks(8192, BF16) == plans[1].request_blocks(8192, BF16)
    assert (here.attention_heads, here.tied) == (there.attention_heads, there.tied)


@pytest.mark.parametrize(
    ("stated", "scheme"),
    [
        (None, "BF16"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "FP8"),
        ({"quant_method": "fp8"}, "FP8-DYNAMIC"),
        ({"quant_method": "awq", "bits": 4}, "AWQ"),
        ({"quant_method": "gptq", "bits": 4}, "GPTQ"),
        ({"quant_method": "mxfp4"}, "MXFP4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "NVFP4"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}}, "INT4"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}, "FP8-DYNAMIC"),
    ],
)  # fmt: skip
def test_the_format_is_that_of_the_configuration(stated: dict[str, Any] | None, scheme: str) -> None:
    """quantization_config names the method; compressed-tensors its bits and type."""
    assert scheme_of({} if stated is None else {"quantization_config": stated}) == scheme


def test_a_quantised_configuration_weighs_as_its_format() -> None:
    """Without files, the rules of the format apply to the shapes."""
    config = {**CONFIGS["qwen3-32b"], "quantization_config": {"quant_method": "awq", "bits": 4}}
    model = checkpoint_model(checkpoint_of(config, ()), "qwen3-32b")
    assert stored_bytes(model, 2) == pytest.approx(stored_bytes(checkpoint("qwen3-32b", "AWQ"), 2), rel=0.001)


def test_packed_weights_count_as_what_they_hold() -> None:
    """Eight weights of four bits are in one 32-bit integer, inputs first."""
    shape = {"q_proj": (640, 512), "o_proj": (512, 640)}
    tensors = [
        CheckpointTensor(name=f"model.layers.0.self_attn.{each}.qweight", dtype="I32", shape=(size[1], size[0] // 8))
        for each, size in shape.items()
    ]
    config = {
        **CONFIGS["llama-3.1-8b"], "num_hidden_layers": 1, "quantization_config": {"quant_method": "awq", "bits": 4},
    }  # fmt: skip
    model = checkpoint_model(checkpoint_of(config, tensors), "tiny")
    assert model.parameters == 2 * 640 * 512
    assert stored_bytes(model, 2) == 640 * 512 // 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"num_hidden_layers": None}, UnreadableModel),
        ({"hidden_size": -1}, UnreadableModel),
        ({"layer_types": ["hyena"] * 64}, Unsupported),
        ({"quantization_config": {"quant_method": "mystery"}}, Unsupported),
        ({"is_encoder_decoder": True}, Unsupported),
    ],
)
def test_what_no_rule_is_known_for_is_refused(
    change: dict[str, Any], problem: type[UnreadableModel] | type[Unsupported]
) -> None:
    """Never a guess."""
    with pytest.raises(problem):
        checkpoint_model(checkpoint_of({**CONFIGS["qwen3-32b"], **change}, ()), "odd")


def test_a_tensor_that_no_rule_names_is_refused() -> None:
    """It is named in the answer."""
    odd = CheckpointTensor(name="model.layers.0.flux_capacitor.weight", dtype="BF16", shape=(8, 8))
    with pytest.raises(Unsupported, match="flux_capacitor"):
        checkpoint_model(checkpoint_of(CONFIGS["qwen3-32b"], [odd]), "odd")


def test_draft_layers_and_encoders_are_told_apart() -> None:
    """MTP weights are not loaded without speculation; an encoder is, on the first stage."""
    tensors = [
        CheckpointTensor(name="mtp.layers.0.mlp.gate_proj.weight", dtype="BF16", shape=(8, 8)),
        CheckpointTensor(name="model.visual.blocks.0.attn.qkv.weight", dtype="BF16", shape=(12, 4)),
        CheckpointTensor(name="model.visual.patch_embed.proj.weight", dtype="BF16", shape=(4, 3, 2, 2, 2)),
    ]
    model = checkpoint_model(checkpoint_of(CONFIGS["qwen3-32b"], tensors), "odd")
    assert stored_bytes(model, 1) == 2 * (48 + 96)
    assert stored_bytes(model, 2) == 2 * (24 + 96)
