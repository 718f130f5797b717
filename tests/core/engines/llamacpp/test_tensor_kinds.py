"""Uses of tensors by name."""

import pytest

from service.core.engines.llamacpp.tensor_kinds import tensor_kind
from tests.golden_rows import golden_rows


@pytest.mark.parametrize(
    ("name", "layer", "op", "base", "block"),
    [
        ("token_embd.weight", "input", "get_rows", "token_embd", None),
        ("output_norm.weight", "output", "mul", "output_norm", None),
        ("output.scale", "output", "mul_mat", "output", None),
        ("blk.12.attn_q.bias", "repeating", "add", "attn_q", 12),
        ("blk.3.ffn_down_exps.bias", "repeating", "add_id", "ffn_down_exps", 3),
        ("blk.3.nextn.eh_proj.weight", "repeating", "mul_mat", "nextn.eh_proj", 3),
        ("blk.3.indexer.k_norm.weight", "repeating", "mul", "indexer.k_norm", 3),
        ("blk.3.exp_probs_b", "repeating", "add", "exp_probs_b", 3),
        ("blk.3.attn_q.lora_a", "repeating", "mul_mat_id", "attn_q", 3),
        ("enc.blk.5.attn_o.weight", "repeating", "mul_mat", "attn_o", 5),
        ("posnet.2.conv1.weight", "repeating", "im2col", "conv1", 2),
        ("rope_freqs.weight", "repeating", "rope", "rope_freqs", None),
        ("masked_embd_ordering", "input", "none", "masked_embd_ordering", None),
    ],
)
def test_kind_by_name(name: str, layer: str, op: str, base: str, block: int | None) -> None:
    """Layer class, operation, base and block of a name."""
    kind = tensor_kind(name)
    assert kind is not None
    assert (kind.layer, kind.op, kind.base, kind.block) == (layer, op, base, block)


@pytest.mark.parametrize(
    "name", ["", "weight", "blk.weight", "blk.x.attn_q.weight", "blk.0.ffn_gate.3.weight", "v.blk.0.attn_q"]
)
def test_unknown_names_have_no_kind(name: str) -> None:
    """Names llama.cpp does not know, per-expert tensors of 2023 files among them."""
    assert tensor_kind(name) is None


def test_every_tensor_of_every_architecture_model_is_known() -> None:
    """No tensor of the 74 tiny golden models lacks a kind."""
    models = {row.model_name: row.model for row in golden_rows("architectures")}
    unknown = [t.name for parsed in models.values() for t in parsed.tensors if tensor_kind(t.name) is None]
    assert len(models) == 74
    assert unknown == []
