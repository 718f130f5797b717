"""What single layers switch on or off, as their model's metadata states it."""

from typing import Any

import pytest

from service.core.architectures.layer_switches import LayerSwitches, read_layer_switches
from service.core.architectures.metadata import Metadata
from service.core.architectures.shape import Layers
from service.core.problems import UnreadableModel

THREE_BLOCKS = Layers(n_layer_all=3, n_layer_nextn=0, router_layer=-1, n_loops=1, dec_n_layer=0)


def switches(**values: Any) -> LayerSwitches:
    """Switches of three layers; `values` by key, dots written as double underscores."""
    keys = {"step35." + key.replace("__", "."): value for key, value in values.items()}
    return read_layer_switches(Metadata(architecture="step35", values=keys), THREE_BLOCKS)


def test_a_file_that_says_nothing_rotates_everywhere_and_limits_nothing() -> None:
    """Rope in every layer, no limits, no further input features."""
    assert switches() == LayerSwitches(
        rope_pattern=(1, 1, 1), swiglu_clamp_exp=(), swiglu_clamp_shexp=(), deepstack_mapping=(-1, -1, -1)
    )


def test_one_limit_holds_for_every_layer() -> None:
    """A single number stands for as many as there are layers."""
    assert switches(swiglu_clamp_exp=7.0)["swiglu_clamp_exp"] == (7.0, 7.0, 7.0)


def test_layers_behind_a_short_pattern_keep_their_default() -> None:
    """A pattern shorter than the model leaves later layers as they were."""
    found = switches(attention__rope_pattern=(True, False), deepstack_mapping=(-1, 1))
    assert found["rope_pattern"] == (1, 0, 1)
    assert found["deepstack_mapping"] == (-1, 1, -1)


def test_layers_of_a_loop_repeat_those_of_the_file() -> None:
    """Three layers run twice have six entries."""
    looped = Layers(n_layer_all=6, n_layer_nextn=0, router_layer=-1, n_loops=2, dec_n_layer=0)
    meta = Metadata(architecture="a", values={"a.attention.rope_pattern": (1, 0, 1)})
    assert read_layer_switches(meta, looped)["rope_pattern"] == (1, 0, 1, 1, 0, 1)


@pytest.mark.parametrize("limits", [(7.0, 7.0), (7.0, "x", 7.0), (7.0, True, 7.0), (7.0, float("inf"), 7.0)])
def test_limits_that_are_no_number_per_layer_are_refused(limits: tuple[Any, ...]) -> None:
    """Wrong length, words, booleans and infinities make the file unreadable."""
    with pytest.raises(UnreadableModel, match="swiglu_clamp_exp"):
        switches(swiglu_clamp_exp=limits)
