"""Every byte of a file has a role and a type."""

import pytest

from service.catalog.builtin_models import builtin_rows
from service.core.model_roles import bytes_by_role, bytes_by_type
from tests.models import load_model

REFERENCES = sorted({row.reference for row in builtin_rows() if row.quant in ("Q4_K_M", "MXFP4")})


@pytest.mark.parametrize("reference", REFERENCES)
def test_no_byte_is_lost(reference: str) -> None:
    """Roles and types sum up to the tensors of the file, and next to nothing is of no known role."""
    model = load_model(reference)
    total = sum(tensor.size_bytes for tensor in model.tensors)
    roles = bytes_by_role(model)
    assert sum(roles.values()) == sum(bytes_by_type(model).values()) == total
    assert roles.get("other", 0) <= 0.02 * total
    assert list(roles.values()) == sorted(roles.values(), reverse=True)


def test_a_dense_model() -> None:
    """Llama 3.3 70B: bytes as its tensor table has them."""
    roles = bytes_by_role(load_model("llama-3.3-70b:Q4_K_M"))
    assert set(roles) == {"feed_forward", "attention", "output", "embedding", "norm", "other"}
    # 8,192 x 128,256 elements in blocks of 256: 210 bytes each in q6_K, 144 in q4_K
    assert roles["output"] == 8192 * 128_256 // 256 * 210
    assert roles["embedding"] == 8192 * 128_256 // 256 * 144


def test_a_mixture_of_experts() -> None:
    """Nearly all of GPT-OSS are routed experts; their router is none."""
    roles = bytes_by_role(load_model("gpt-oss-120b:MXFP4"))
    assert roles["routed_experts"] > 0.9 * sum(roles.values())
    assert 0 < roles["router"] < roles["attention"]


def test_draft_layers_are_told_apart() -> None:
    """What only speculation runs is no attention and no feed-forward network of the model."""
    with_draft = bytes_by_role(load_model("glm-4.7-flash-mtp:Q4_K_M"))
    assert with_draft["draft"] > 0
    assert "draft" not in bytes_by_role(load_model("llama-3.2-1b:Q4_K_M"))


def test_recurrent_layers_are_told_apart() -> None:
    """Falcon H1 has attention and Mamba in each block."""
    roles = bytes_by_role(load_model("falcon-h1-34b:Q4_K_M"))
    assert roles["recurrent"] > 0
    assert roles["attention"] > 0


def test_types_of_a_mixed_quant() -> None:
    """A Q4_K_M is q4_K, q6_K and f32."""
    assert list(bytes_by_type(load_model("llama-3.2-1b:Q4_K_M"))) == ["q4_K", "q6_K", "f32"]
