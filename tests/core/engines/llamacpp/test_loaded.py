"""A model on its devices: what shares lead to the same slots, and what differs all the same."""

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.core.engines.llamacpp.choices import choose, max_context_tokens
from service.core.engines.llamacpp.loaded import LoadedModel, load_model
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.problems import Contradiction
from service.core.types import Workload
from tests import models
from tests.rigs import gpu, rig

LLAMA: Final = models.load_model("llama-3.2-1b:Q4_K_M")
PAIR: Final = rig(gpu("cuda"), gpu("cuda"))


def loaded(**stated: object) -> LoadedModel:
    """The model on two cards."""
    return load_model(LLAMA, PAIR, replace(LlamaCppSettings(), **stated))  # type: ignore[arg-type]


def test_shares_that_lead_to_the_same_slots_give_the_same_object() -> None:
    """What it remembers serves all of them; so do all numbers of layers that mean all."""
    one = loaded(tensor_split=(1.0, 1.0))
    assert loaded(tensor_split=(50.0, 50.0)) is one
    assert loaded(tensor_split=(1.0, 1.01), n_gpu_layers="all") is one
    assert loaded(tensor_split=(3.0, 1.0)) is not one


def test_shares_that_cut_tensors_are_kept_apart() -> None:
    """There they say more than which slots a card has."""
    even, uneven = (loaded(split_mode="tensor", tensor_split=shares) for shares in ((1.0, 1.0), (3.0, 1.0)))
    assert even.slots == uneven.slots
    assert even.weights != uneven.weights


def test_what_else_is_stated_is_kept_apart() -> None:
    """The type of the cache, the batches and the program change what a context takes."""
    plain = loaded(tensor_split=(1.0, 1.0))
    for stated in ({"cache_type_k": "q8_0"}, {"n_ubatch": 1024}, {"tool": "llama-bench"}, {"kv_offload": False}):
        other = loaded(tensor_split=(1.0, 1.0), **stated)
        assert other is not plain
        assert {name: getattr(other.settings, name) for name in stated} == stated


def test_shares_are_checked_whatever_was_loaded_before() -> None:
    """A number of shares that is not that of the cards is refused after one that is."""
    loaded(tensor_split=(1.0, 1.0))
    with pytest.raises(Contradiction):
        loaded(tensor_split=(1.0, 1.0, 1.0))


@given(st.lists(st.integers(1, 400), min_size=2, max_size=2), st.integers(20, 60))
def test_the_largest_context_is_that_of_the_slots(shares: list[int], usable_mib: int) -> None:
    """Shares with the same slots have the same largest context, whichever is asked about first."""
    cards = rig(*(replace(gpu("cuda"), usable_bytes=usable_mib * 40 << 20) for _ in range(2)))
    stated = LlamaCppSettings(n_gpu_layers="all", tensor_split=tuple(map(float, shares)))
    slots = load_model(LLAMA, cards, stated).slots
    counts = tuple(float(end - first) for first, end in (slots.range_of(0), slots.range_of(1)))
    same = replace(stated, tensor_split=counts)
    assume(load_model(LLAMA, cards, same).slots == slots)
    asked = Workload(context_tokens=4096)
    found = [max_context_tokens(choose(LLAMA, cards, each, asked)) for each in (stated, same)]
    assert found[0] == found[1]
