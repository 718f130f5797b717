"""Weights of a rank: what is divided, what is repeated, what is padded."""

from fractions import Fraction

import pytest

from service.core.engines.vllm.allocation import allocated_bytes
from service.core.engines.vllm.formats import FORMATS
from service.core.engines.vllm.model import Matrix
from service.core.engines.vllm.weights import Sharding, rank_shape
from service.core.units import MIB
from tests.core.engines.vllm.models import checkpoint, rank_gib


@pytest.mark.parametrize(
    ("name", "scheme", "tensor_parallel", "gib"),
    [
        ("llama-3-8b", "BF16", 1, 14.96),
        ("llama-3-8b", "BF16", 2, 7.48),
        ("deepseek-r1-671b", "FP8", 8, 79.74),
        ("qwen3-30b-a3b", "BF16", 1, 56.88),
        ("qwen3-30b-a3b", "BF16", 4, 14.25),
        ("gpt-oss-120b", "MXFP4", 1, 65.97),
        ("gemma-3-27b", "BF16", 1, 51.79),
        ("gemma-3-27b", "BF16", 4, 13.17),
        ("qwen2.5-72b", "AWQ", 2, 19.40),
    ],
)
def test_weights_of_a_rank(name: str, scheme: str, tensor_parallel: int, gib: float) -> None:
    """The check values of logs, within 1 %."""
    assert rank_gib(name, scheme, tensor_parallel) == pytest.approx(gib, rel=0.01)


def kv(parts: int) -> Matrix:
    """Keys of some KV heads of 128."""
    return Matrix(fused="qkv", role="attention", division="kv_heads", rows=128 * parts, columns=4096, parts=parts)


@pytest.mark.parametrize(
    ("heads", "ranks", "rows"), [(8, 1, 1024), (8, 4, 256), (8, 8, 128), (8, 16, 128), (2, 8, 128)]
)
def test_kv_heads_are_repeated_beyond_their_number(heads: int, ranks: int, rows: int) -> None:
    """A rank has one head at least."""
    assert rank_shape(kv(heads), Sharding(tensor_parallel=ranks))[0] == rows


def test_the_vocabulary_is_padded_to_64_rows() -> None:
    """51,865 rows become 51,904, which two ranks share."""
    embedding = Matrix(fused="embed", role="embedding", division="vocabulary", rows=51_865, columns=8)
    assert rank_shape(embedding, Sharding(tensor_parallel=2)) == (25_952, 8, 1)


def test_whole_experts_are_distributed() -> None:
    """The first ranks get one more; without expert parallelism every rank has a part of each."""
    experts = Matrix(fused="w13", role="experts", division="column", rows=768, columns=2048, copies=130)
    assert rank_shape(experts, Sharding(expert_parallel=4)) == (768, 2048, 33)
    assert rank_shape(experts, Sharding(expert_tensor_parallel=4)) == (192, 2048, 130)


def test_experts_take_as_much_in_either_division() -> None:
    """128 experts over four ranks: whole or divided, a rank holds a quarter."""
    divided, whole = rank_gib("qwen3-30b-a3b", "BF16", 4), rank_gib("qwen3-30b-a3b", "BF16", 4, expert_parallel=4)
    assert whole == pytest.approx(divided, rel=0.01)


def test_what_ranks_repeat_is_small_but_for_latents() -> None:
    """Norms and routers of a dense model are a thousandth of it; what compresses into a latent is on every rank."""
    assert 8 * rank_gib("llama-3.3-70b", "BF16", 8) == pytest.approx(rank_gib("llama-3.3-70b", "BF16", 1), rel=0.003)
    latent = 8 * rank_gib("deepseek-r1-671b", "FP8", 8) / rank_gib("deepseek-r1-671b", "FP8", 1)
    assert 1.005 < latent < 1.03


@pytest.mark.parametrize(
    ("scheme", "bits"),
    [("BF16", 16), ("FP8", 8 + Fraction(32, 16384)), ("AWQ", 4 + Fraction(20, 128)), ("NVFP4", Fraction(9, 2)),
     ("MXFP4", Fraction(17, 4)), ("INT4", 4 + Fraction(16, 128))],
)  # fmt: skip
def test_bits_of_a_weight(scheme: str, bits: Fraction) -> None:
    """Weight, scale and zero point of each format, on a matrix that its groups divide."""
    rows, columns = 4096, 8192
    row = FORMATS[scheme]
    size = row.bytes_of(rows, columns) + (row.scale_bytes_of(rows, columns) if row.scale_bits else 0)
    assert Fraction(8 * size, rows * columns) == bits


def test_the_output_stays_in_16_bits() -> None:
    """Embedding and output of a quantised model are as large as before."""
    assert not any(FORMATS[name].holds(matrix) for name in FORMATS for matrix in checkpoint("qwen3-32b").last)


@pytest.mark.parametrize(
    ("size", "allocated"),
    [(0, 0), (1, 512), (8 * MIB, 8 * MIB), (11 * MIB, 12 * MIB), (21 * MIB + 1, 22 * MIB),
     (20 * MIB + 512, 20 * MIB + 512), (15_925_248, 16 * MIB)],
)  # fmt: skip
def test_a_small_rest_stays_with_its_tensor(size: int, allocated: int) -> None:
    """Segments are of 2 MiB; a rest of up to 1 MiB is given to no other tensor."""
    assert allocated_bytes(size) == allocated
