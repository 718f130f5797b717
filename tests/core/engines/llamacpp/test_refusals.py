"""What llama.cpp refuses is a problem that says what to do."""

from dataclasses import replace

import pytest

from service.core.engines.llamacpp.placement import place
from service.core.engines.llamacpp.settings import LlamaCppSettings, OverrideTensor
from service.core.problems import Contradiction, InvalidRequest, PlanProblem, Unsupported
from service.core.types import Backend, Rig, Workload
from tests.golden_rows import golden_rows
from tests.models import load_model
from tests.rigs import gpu, rig, rpc_rig

LLAMA = "llama-3.2-1b:Q4_K_M"
WORKLOAD = Workload(context_tokens=4096)
LAYERS = LlamaCppSettings(split_mode="layer", n_gpu_layers="all")


def problem(settings: LlamaCppSettings, given: Rig, reference: str = LLAMA) -> PlanProblem:
    """The problem of a placement."""
    with pytest.raises(PlanProblem) as caught:
        place(load_model(reference), given, settings, WORKLOAD)
    return caught.value


@pytest.mark.parametrize("backend", ["cuda", "rocm", "vulkan", "metal", "rpc"])
def test_row_split_is_gone_since_july_2026(backend: Backend) -> None:
    """The newest llama.cpp and one of August 2026 refuse it by the device's name."""
    for date in (None, "2026-08"):
        refused = problem(replace(LAYERS, split_mode="row", date=date), rig(gpu(backend), gpu(backend)))
        assert isinstance(refused, Unsupported)
        assert "does not support split buffers" in refused.detail
        assert "Split by layer" in refused.detail


def test_row_split_existed_before_and_exists_on_sycl() -> None:
    """CUDA in spring 2026 and SYCL today place by row."""
    model = load_model(LLAMA)
    cases: tuple[tuple[Backend, str | None], ...] = (("cuda", "2026-05"), ("sycl", None))
    for backend, date in cases:
        placement = place(
            model, rig(gpu(backend), gpu(backend)), replace(LAYERS, split_mode="row", date=date), WORKLOAD
        )
        assert not placement.pipeline_parallel
        assert all(device.weights_bytes > 0 for device in placement.devices)


@pytest.mark.parametrize("row", [row for row in golden_rows("tensor") if "error" in row.observed], ids=str)
def test_tensor_split_is_refused_where_llamacpp_refuses_it(row: object) -> None:
    """Golden rows with an error: the architecture is on llama.cpp's list."""
    assert isinstance(row, type(golden_rows("tensor")[0]))
    refused = problem(replace(row.settings(), split_mode="tensor"), rpc_rig(row.n_devices), row.model_name)
    assert isinstance(refused, Unsupported)
    assert row.hp.arch.name in refused.detail


def test_a_list_of_cards_came_in_november_2024() -> None:
    """A build of October 2024 takes all cards, and is told what it can be given instead."""
    refused = problem(replace(LAYERS, devices=(1,), date="2024-10"), rig(gpu(), gpu()))
    assert isinstance(refused, Unsupported)
    assert "tensor_split" in refused.detail


def test_tensor_split_came_in_april_2026() -> None:
    """A build of January 2026 does not have it."""
    assert (
        "came in April 2026" in problem(replace(LAYERS, split_mode="tensor", date="2026-01"), rig(gpu(), gpu())).detail
    )


def test_tensor_split_needs_a_card_and_flash_attention() -> None:
    """Without a card there is nothing to join; without flash attention llama.cpp refuses the context."""
    tensor = replace(LAYERS, split_mode="tensor")
    assert isinstance(problem(tensor, rig()), Contradiction)
    assert "flash attention" in problem(replace(tensor, flash_attn=False), rig(gpu(), gpu())).detail


@pytest.mark.parametrize("shares", [(1.0,), (1.0, 1.0, 1.0)])
def test_shares_must_be_one_per_card(shares: tuple[float, ...]) -> None:
    """Too few and too many shares name the cards they are for."""
    refused = problem(replace(LAYERS, tensor_split=shares), rig(gpu(), gpu()))
    assert isinstance(refused, Contradiction)
    assert "CUDA0, CUDA1" in refused.detail


def test_shares_without_cards_are_refused() -> None:
    """A rig without cards has nothing to split over."""
    assert "0 cards (none)" in problem(replace(LAYERS, tensor_split=(1.0,)), rig()).detail


@pytest.mark.parametrize("share", [float("nan"), -1.0, float("inf")])
def test_shares_must_be_numbers(share: float) -> None:
    """NaN, infinite and negative shares are refused."""
    assert isinstance(problem(replace(LAYERS, tensor_split=(1.0, share)), rig(gpu(), gpu())), InvalidRequest)


def test_more_cards_than_a_model_can_be_spread_over_are_refused() -> None:
    """The scheduler takes 15 cards and the host; a joint device 16; a single card of many is fine."""
    assert "at most 15 cards" in problem(LAYERS, rig(*(gpu() for _ in range(16)))).detail
    tensor = replace(LAYERS, split_mode="tensor")
    assert "at most 16 cards" in problem(tensor, rig(*(gpu() for _ in range(17)))).detail
    one = place(load_model(LLAMA), rig(*(gpu() for _ in range(17))), replace(LAYERS, split_mode="none"), WORKLOAD)
    assert sum(device.used for device in one.devices) == 1


def test_expert_offload_came_in_august_2025() -> None:
    """An older build is told to use -ot; a negative count is no count."""
    assert "override_tensor" in problem(replace(LAYERS, n_cpu_moe=4, date="2025-06"), rig(gpu())).detail
    assert isinstance(problem(replace(LAYERS, n_cpu_moe=-1), rig(gpu())), InvalidRequest)


def test_overrides_reach_only_cards_that_take_part() -> None:
    """A card left out by split mode none, and the cards inside a joint device, are no targets."""
    second = (OverrideTensor(pattern="ffn_up", buffer_type="CUDA1"),)
    none = replace(LAYERS, split_mode="none", override_tensor=second)
    assert isinstance(problem(none, rig(gpu(), gpu())), Contradiction)
    tensor = replace(LAYERS, split_mode="tensor", override_tensor=second)
    assert isinstance(problem(tensor, rig(gpu(), gpu())), Unsupported)
