"""Directions that hold on every rig of a table made from the catalogue: which split is faster, and what depth costs."""

from collections.abc import Iterator, Sequence
from functools import cache

import pytest

from service.core.engines.llamacpp.speed import Speed, speed_of
from service.core.links.topology import slowest_path
from service.core.speed import Assumptions
from service.core.timing.constants import CALIBRATION
from service.core.timing.generations import generation_label
from service.core.types import Gpu
from service.planning.catalogues import BuiltinCatalogues
from tests.models import load_model
from tests.speed_cases import placed

# dense models from small to large, each as its catalogue has it
DENSE = (
    *("llama-3.2-1b:Q4_K_M", "llama-3.1-8b:Q4_K_M", "llama-3.1-8b:F16", "qwen3-32b:Q4_K_M", "llama-3.3-70b:Q4_K_M"),
    *("llama-3.3-70b:F16", "llama-3.1-405b:Q4_K_M"),
)
# mixtures with 3 to 6 billion active weights, and the bandwidth from which on a tensor split loses
FEW_ACTIVE = {
    "qwen3-30b-a3b:Q4_K_M": 400e9,
    "qwen3.6-35b-a3b:Q4_K_M": 450e9,
    "gemma-4-26b-a4b:Q4_K_M": 700e9,
    "gpt-oss-120b:MXFP4": 700e9,
    "gpt-oss-20b:MXFP4": 950e9,
}
HELD_FRACTION = 0.9
MIXED_RANGE = 1.25


@cache
def cards() -> tuple[Gpu, ...]:
    """One card of every kind with memory of its own whose figures are known, under its own backend."""
    catalogue = BuiltinCatalogues().gpus
    names = [
        slug for slug, record in catalogue.names.records.items() if record.vram_bytes and not record.unified_memory
    ]
    found = [catalogue.gpus(slug)[0] for slug in names]
    return tuple(gpu for gpu in found if gpu.bandwidth_bytes_per_s and gpu.fp32_flops)


def cuda_cards() -> list[Gpu]:
    """Those of NVIDIA whose generation is known."""
    return [gpu for gpu in cards() if gpu.backend == "cuda" and generation_label(gpu) is not None]


def weights_bytes(model: str) -> int:
    """Bytes of all tensors."""
    return sum(tensor.size_bytes for tensor in load_model(model).tensors)


def needs(count: int, gpu: Gpu) -> list[str]:
    """Dense models that fit on `count` cards and on no fewer."""
    room = HELD_FRACTION * gpu.usable_bytes
    return [model for model in DENSE if (count - 1) * room < weights_bytes(model) <= count * room]


def speed(model: str, gpus: Sequence[str], split_mode: str = "layer", *, prompt: int = 4096, cached: int = 0) -> Speed:
    """Speed of a model with all of it on these cards."""
    choice = placed(
        {
            "model": model,
            "rig": {"gpus": list(gpus)},
            "workload": {
                "prompt_tokens": prompt,
                "cached_tokens": cached,
                "output_tokens": 256,
                "context_tokens": prompt + cached + 512,
            },
            "engine": {"split_mode": split_mode, "n_gpu_layers": "all"},
        }
    )
    return speed_of(choice, Assumptions(), CALIBRATION)


def decode_s(found: Speed) -> float:
    """Time of a decode step."""
    assert found.decode is not None
    return found.decode.step_s


def prompt_s(found: Speed) -> float:
    """Time of a prompt."""
    assert found.prefill_s is not None
    return found.prefill_s


def pairs(*, peers: bool) -> Iterator[tuple[Gpu, str]]:
    """Pairs of equal CUDA cards that reach each other, or do not, with a dense model that needs both."""
    for gpu in cuda_cards():
        path = slowest_path(placed(_question(gpu)).question.rig, (0, 1))
        assert path is not None
        if (path.kind in ("nvlink", "pcie-p2p")) is peers:
            yield from ((gpu, model) for model in needs(2, gpu)[-1:])


def _question(gpu: Gpu) -> dict[str, object]:
    return {
        "model": DENSE[0],
        "rig": {"gpus": [f"2x {gpu.slug}"]},
        "workload": {"context_tokens": 512},
        "engine": {"n_gpu_layers": "all"},
    }


def test_a_second_card_never_speeds_up_what_fits_on_one() -> None:
    """Stages of a layer split add up, on every kind of card and for every model that one of them holds."""
    compared = 0
    for gpu in cards():
        for model in needs(1, gpu):
            compared += 1
            one, two = speed(model, [gpu.slug]), speed(model, [gpu.slug] * 2)
            assert decode_s(two) > decode_s(one), (gpu.slug, model)
    assert compared > 150


def test_tensor_split_wins_dense_decode_between_peers() -> None:
    """Over NVLink or peer-to-peer access half the reading saves more than the meetings cost."""
    compared = list(pairs(peers=True))
    assert len(compared) > 15
    for gpu, model in compared:
        gpus = [gpu.slug] * 2
        assert decode_s(speed(model, gpus, "tensor")) < decode_s(speed(model, gpus)), (gpu.slug, model)


def test_tensor_split_loses_prompts_through_the_host() -> None:
    """Without peer-to-peer access every ubatch's reductions pass through main memory."""
    compared = list(pairs(peers=False))
    assert len(compared) > 15
    for gpu, model in compared:
        gpus = [gpu.slug] * 2
        assert prompt_s(speed(model, gpus, "tensor")) > prompt_s(speed(model, gpus)), (gpu.slug, model)


@pytest.mark.parametrize(("model", "bandwidth_bytes_per_s"), FEW_ACTIVE.items())
def test_a_mixture_with_few_active_weights_loses_under_tensor_split(model: str, bandwidth_bytes_per_s: float) -> None:
    """There is little to read, and as many meetings as in a dense model; on pairs since Turing that hold it."""
    # cards with less bandwidth read long enough for half of the dense weights to be worth the meetings
    compared = [
        gpu
        for gpu in cuda_cards()
        if (gpu.compute_capability or (0, 0)) >= (7, 0)
        and (gpu.bandwidth_bytes_per_s or 0) > bandwidth_bytes_per_s
        and weights_bytes(model) < 2 * HELD_FRACTION * gpu.usable_bytes
    ]
    assert len(compared) > 20
    for gpu in compared:
        gpus = [gpu.slug] * 2
        assert decode_s(speed(model, gpus, "tensor")) > decode_s(speed(model, gpus)), gpu.slug


def test_a_mixture_gains_less_from_tensor_split_than_a_dense_model() -> None:
    """On every pair of CUDA cards that holds both, however slow."""
    mixture, dense = "qwen3-30b-a3b:Q4_K_M", "qwen3-32b:Q4_K_M"
    compared = [gpu for gpu in cuda_cards() if weights_bytes(dense) < 2 * HELD_FRACTION * gpu.usable_bytes]
    assert len(compared) > 60
    for gpu in compared:
        gpus = [gpu.slug] * 2
        few, all_ = (decode_s(speed(each, gpus)) / decode_s(speed(each, gpus, "tensor")) for each in (mixture, dense))
        assert few < all_, gpu.slug


@pytest.mark.parametrize(
    ("gpus", "measured_gain"),
    [("2x rtx-a5000", 51.9 / 35.1), ("2x rtx-5060-ti-16gb", 38.3 / 23.1), ("2x rtx-5090", 107.5 / 74.8)],
)
def test_pairs_that_were_measured_gain_as_much(gpus: str, measured_gain: float) -> None:
    """27B over two cards of August 2026, with a link between them and without, within 15 %."""
    # source: github.com/sudoingX/qwen38-mtp, README.md and sweeps/multi-gpu.md; one RTX 5090 instead of a layer split
    layer, tensor = (speed("qwen3.6-27b:Q4_K_M", [gpus], mode, prompt=64) for mode in ("layer", "tensor"))
    assert decode_s(layer) / decode_s(tensor) == pytest.approx(measured_gain, rel=0.15)


def test_six_cards_without_links() -> None:
    """Six 2080 Ti at tensor split win decode (54 to 43 tokens per second measured) and lose prompts (200 to 1,119)."""
    gpus = ["6x rtx-2080-ti"]
    layer, tensor = speed("qwen3.6-27b:Q8_0", gpus), speed("qwen3.6-27b:Q8_0", gpus, "tensor")
    assert 1.1 <= decode_s(layer) / decode_s(tensor) <= 1.4
    assert prompt_s(layer) / prompt_s(tensor) <= 0.35


@pytest.mark.parametrize(("tokens", "measured_per_s"), [(70_000, 988), (120_000, 781), (200_000, 584), (250_000, 510)])
def test_prompts_slow_down_with_their_length(tokens: int, measured_per_s: float) -> None:
    """8 RTX 2080 Ti process 1,120 tokens per second of a short prompt, and less of long ones, within 25 %."""
    gpus = ["8x rtx-2080-ti"]
    short, long = (length / prompt_s(speed("qwen3.6-27b:Q8_0", gpus, prompt=length)) for length in (4096, tokens))
    assert long / short == pytest.approx(measured_per_s / 1120, rel=0.25)


def test_a_fast_card_alone_beats_it_with_a_slow_one() -> None:
    """Adding a slower card to one that holds everything costs decode."""
    alone = speed("qwen3-32b:Q4_K_M", ["rtx-5090"])
    both = speed("qwen3-32b:Q4_K_M", ["rtx-5090", "rtx-3090"])
    assert decode_s(both) > MIXED_RANGE * decode_s(alone)


def test_depth_costs_every_backend() -> None:
    """A token far into a context takes longer than an early one, on every kind of card."""
    for gpu in cards():
        model = "llama-3.2-1b:Q4_K_M"
        near, far = (decode_s(speed(model, [gpu.slug], cached=cached)) for cached in (0, 32_768))
        assert far > near, gpu.slug
