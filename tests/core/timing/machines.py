"""Cards and work for tests of times."""

from typing import Any

from service.core.speed import Assumptions
from service.core.timing.constants import CALIBRATION
from service.core.timing.processor import Processors, processors
from service.core.timing.work import Part, Weights, Work
from service.core.types import Gpu, Host, Rig

AMPERE = Gpu(
    slug="rtx-3090",
    name="GeForce RTX 3090",
    backend="cuda",
    generation="Ampere",
    compute_capability=(8, 6),
    total_bytes=24 * 2**30,
    usable_bytes=23 * 2**30,
    usable_basis="test",
    bandwidth_bytes_per_s=936.2e9,
    fp32_flops=35.58e12,
    tdp_w=350,
)
# half a byte for a weight, two operations each
QUANTISED = Weights(dense_flops_per_byte=4.0)
A = Assumptions(bandwidth_fraction=0.79, fixed_s_per_device=0.00074, ignore_kv_reads=True)
PLAIN = Assumptions()


def part(gpu: Gpu | None = AMPERE, dense_bytes: int = 10**10, **parts: Any) -> Part:
    """What a card holds: 10 GB of weights unless said otherwise."""
    return Part(gpu=gpu, dense_bytes=dense_bytes, **parts)


def work(*cards: Part, **parts: Any) -> Work:
    """Work of these cards, with nothing on the host unless said otherwise."""
    return Work(**{"cards": cards, "host": Part(gpu=None), "weights": QUANTISED, **parts})


def rates(asked: Work, assumptions: Assumptions = PLAIN, host: Host = Host()) -> Processors:  # noqa: B008 - frozen
    """Rates of the cards of `asked`."""
    gpus = tuple(card.gpu for card in asked.cards if card.gpu is not None)
    return processors(Rig(gpus=gpus, host=host), assumptions, CALIBRATION)
