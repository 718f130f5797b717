"""What crosses the links of a rig: a model being loaded, hidden states between stages, reductions of tensor split."""

from collections.abc import Sequence

from service.core.estimate import Estimate
from service.core.links.all_reduce import all_reduce, implementation_of, sent_bytes
from service.core.links.pcie import hidden_state_bytes
from service.core.links.rates import PAGEABLE_COPY_FRACTION, PINNED_COPY_FRACTION
from service.core.links.topology import Path, link_bytes_per_s, slowest_path
from service.core.types import Gpu, Rig

# after attention and after the feed-forward network (src/llama-graph.cpp, llama.cpp in llama-cpp-python 0.3.36)
MEETINGS_PER_LAYER = 2


def load_s(gpus: Sequence[Gpu], weights_bytes: Sequence[int]) -> Estimate:
    """Time to copy each card's weights through its link, one card after the other, once they are in main memory.

    Least from pinned memory, most from a mapped file, which is llama.cpp's default; a disk may well be slower.
    Source: domain notes on interconnect, section 1: H2D copies reach 0.80 to 0.88 of a link, pageable ones half.
    """
    link_s = sum(
        held / link_bytes_per_s(gpu)
        for gpu, held in zip(gpus, weights_bytes, strict=True)
        if held and not gpu.unified_memory and gpu.backend != "rpc"
    )
    mapped_s = link_s / PAGEABLE_COPY_FRACTION
    return Estimate(low=link_s / PINNED_COPY_FRACTION, mid=mapped_s, high=mapped_s * 1.25)


def boundary_s(path: Path, n_embd: int, tokens: int = 1) -> float | None:
    """Time for the hidden states of `tokens` tokens to go from one stage to the next, latency and bytes."""
    if path.bandwidth_bytes_per_s is None or path.latency_s is None:
        return None
    return path.latency_s + hidden_state_bytes(n_embd, tokens) / path.bandwidth_bytes_per_s


def tensor_sync_s(
    rig: Rig, cards: Sequence[int], n_embd: int, tokens: int = 1, *, nccl: bool | None = None
) -> Estimate | None:
    """Time of one meeting of llama.cpp's tensor split over cards of the rig: the link's alone (see `all_reduce`).

    cards: positions of those that share the layers; nccl: as in `implementation_of`. None where the rate of a link is
    not known, 0 for one card.
    """
    if len(cards) < 2:
        return Estimate(low=0.0, mid=0.0, high=0.0)
    path = slowest_path(rig, tuple(cards))
    if path is None:
        return None
    implementation = implementation_of(len(cards), nccl=nccl)
    return all_reduce(path, len(cards), sent_bytes(n_embd * tokens, len(cards), implementation), implementation)
