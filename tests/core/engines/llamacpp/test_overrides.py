"""Tensors sent elsewhere than their slot."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.llamacpp.overrides import (
    EXPERTS_PATTERN,
    Override,
    OverrideTable,
    buffer_type_names,
    parse_override_tensor,
    resolve_overrides,
)
from service.core.engines.llamacpp.settings import OverrideTensor
from service.core.engines.llamacpp.slots import CPU
from service.core.problems import InvalidRequest


def test_buffer_types_are_counted_per_backend() -> None:
    """Two CUDA cards, a Vulkan one, an RPC server and Metal each begin at 0."""
    assert buffer_type_names(("cuda", "rpc", "cuda", "vulkan", "metal")) == (
        "CUDA0",
        "RPC0",
        "CUDA1",
        "Vulkan0",
        "MTL0",
    )


def test_an_argument_is_split_at_commas() -> None:
    """One -ot argument may hold several entries."""
    assert parse_override_tensor(r"exps=CPU,blk\.1\.=CUDA1") == (
        OverrideTensor(pattern="exps", buffer_type="CPU"),
        OverrideTensor(pattern=r"blk\.1\.", buffer_type="CUDA1"),
    )


def test_an_entry_without_a_buffer_type_is_refused() -> None:
    """Text without "=" is no entry."""
    with pytest.raises(InvalidRequest, match="pattern=buffer type"):
        parse_override_tensor("exps")


def test_names_become_devices() -> None:
    """CPU is the host; an RPC buffer type may carry its server's address."""
    entries = [OverrideTensor(pattern="a", buffer_type=name) for name in ("CPU", "CUDA1", "RPC0[10.0.0.2:50052]")]
    assert [entry.target for entry in resolve_overrides(entries, ("cuda", "cuda", "rpc"))] == [CPU, 1, 2]


def test_an_unknown_buffer_type_lists_those_there_are() -> None:
    """A card this rig does not have is refused with the valid names."""
    with pytest.raises(InvalidRequest, match="unknown buffer type 'CUDA2'") as caught:
        resolve_overrides([OverrideTensor(pattern="a", buffer_type="CUDA2")], ("cuda", "cuda"))
    assert caught.value.suggestions == ("CPU", "CUDA0", "CUDA1")


def test_a_bad_pattern_is_refused_before_it_is_used() -> None:
    """Patterns are checked when the request is read."""
    with pytest.raises(InvalidRequest, match="group"):
        resolve_overrides([OverrideTensor(pattern="(a", buffer_type="CPU")], ())


def test_the_first_match_counts_and_overrides_come_before_expert_offload() -> None:
    """An exception put first keeps experts of block 1 on a card while all others go to the host."""
    overrides = (Override(pattern=r"blk\.1\..*exps", target=0), Override(pattern="exps", target=CPU))
    assert OverrideTable(overrides, 0).target("blk.1.ffn_up_exps.weight") == 0
    assert OverrideTable(overrides, 0).target("blk.2.ffn_up_exps.weight") == CPU
    assert OverrideTable(overrides[:1], 48).target("blk.1.ffn_up_exps.weight") == 0
    assert OverrideTable(overrides, 48).target("blk.1.attn_q.weight") is None


EXPERT_NAMES = (
    "ffn_up_exps.weight",
    "ffn_gate_up_exps.weight",
    "ffn_down_chexps.weight",
    "ffn_up_shexp.weight",
    "ffn_gate_inp.weight",
    "ffn_up.weight",
)


@given(block=st.integers(0, 120), n_cpu_moe=st.integers(0, 130), rest=st.sampled_from(EXPERT_NAMES))
def test_expert_offload_is_the_patterns_llamacpp_writes(block: int, n_cpu_moe: int, rest: str) -> None:
    r"""--n-cpu-moe N equals N patterns blk\.i\.ffn_(up|down|gate|gate_up)_(ch|)exps for i < N."""
    name = f"blk.{block}.{rest}"
    written = any(re.search(rf"blk\.{index}{EXPERTS_PATTERN}", name) for index in range(n_cpu_moe))
    assert (OverrideTable((), n_cpu_moe).target(name) == CPU) == written
