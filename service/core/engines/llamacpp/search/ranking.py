"""Which of several ways that fit is best: the fastest, and of those that are as good as it the simplest.

Source: flags and their defaults, common/arg.cpp (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.search.judge import TIE_FRACTION
from service.core.engines.llamacpp.settings import LlamaCppSettings

_SPLIT_FIELDS = ("split_mode", "main_gpu", "devices", "tensor_split", "n_cpu_moe", "override_tensor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A choice and the time of a request; infinite where a bandwidth is not known."""

    choice: Choice
    request_s: float = inf


def best_of(candidates: Sequence[Ranked]) -> Ranked | None:
    """The simplest of the candidates that are within a tie of the fastest; None without candidates.

    Simplest: fewest flags, then fewest cards, then the most room left on its fullest card, then as enumerated. Every
    candidate there is with fewer cards, less memory or less bandwidth is there with more, and no slower: what is chosen
    is never slower by more than a tie for them.
    """
    fastest_s = min((each.request_s for each in candidates), default=inf)
    near = [each for each in candidates if each.request_s <= fastest_s * (1 + TIE_FRACTION)]
    return min(near, key=_simplicity, default=None)


def _simplicity(candidate: Ranked) -> tuple[int, int, float]:
    choice = candidate.choice
    return flags(choice.settings), _cards(choice), -least_headroom_fraction(choice)


def flags(settings: LlamaCppSettings) -> int:
    """Flags about places that a command needs besides the number of layers."""
    plain = LlamaCppSettings()
    return sum(1 for field in _SPLIT_FIELDS if getattr(settings, field) != getattr(plain, field))


def _cards(choice: Choice) -> int:
    return sum(1 for device in choice.placement.devices if device.weights_bytes)


def least_headroom_fraction(choice: Choice) -> float:
    """Share of its memory that the fullest used card has left."""
    left = [
        (need.usable_bytes - need.total_bytes) / need.usable_bytes
        for need, device in zip(choice.needs, choice.placement.devices, strict=False)
        if device.weights_bytes and need.usable_bytes
    ]
    return min(left, default=0.0)
