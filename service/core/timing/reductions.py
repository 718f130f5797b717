"""What cards that work on the same layer cost each other: meetings, and the bytes that pass between them."""

from typing import Final

from service.core.timing.processor import Processors
from service.core.timing.work import Work

# Cards with peer-to-peer access save 75 us of the meetings of three, which take 174 us through main memory.
# Source: speed study, three P40.
_PEER_FRACTION: Final = 0.57
# Part of a peer's link that reductions reach: copies and additions alternate. Assumed: two RTX 3090 were not measured
# to gain more, and nothing else was.
_PEER_RATE_FRACTION: Final = 0.25


def reduction_steps(cards: int) -> int:
    """Steps in which `cards` add up a tensor: halves meet pairwise, cards beyond a power of two fold in and out.

    Source: allreduce_fallback, ggml/src/ggml-backend-meta.cpp:2323-2440 (llama.cpp in llama-cpp-python 0.3.36).
    """
    rounds = cards.bit_length() - 1
    return rounds if cards == 1 << rounds else rounds + 2


def meeting_s(work: Work, processors: Processors, busy: int) -> float:
    """Time of one meeting of `busy` cards, without the bytes they exchange.

    Split by rows: a constant, as launches count for every card already. Tensor split: a kernel that writes to and reads
    from main memory, where the engine has one for these cards; else the steps of a reduction, in each of which one
    thread starts a copy on every card. The slowest backend counts.
    """
    constants = [processor.constants for processor in processors.cards]
    if work.arrangement == "row":
        apart = 1.0 if work.exchange.peer_bytes_per_s is None else _PEER_FRACTION
        return apart * max([each.row_s for each in constants])
    if work.exchange.in_one_kernel:
        return max([each.pair_s for each in constants])
    steps = reduction_steps(busy) * (1.0 if work.exchange.peer_bytes_per_s is None else _PEER_FRACTION)
    return max([steps * (each.reduction_s + each.reduction_card_s * busy) for each in constants])


def exchange_s(work: Work, processors: Processors, busy: int, tokens: float) -> float:
    """Time that the bytes of `tokens` tokens take, over all layers.

    Split by rows: the inputs and results of every matrix pass through one card. Tensor split without peer-to-peer
    access: in every step of a reduction each card's hidden states pass through main memory, which all share; with it
    each card has its own link.

    Source: ggml/src/ggml-cuda/ggml-cuda.cu:1119-1248 (llama.cpp in llama-cpp-python 0.3.36).
    """
    exchange = work.exchange
    if work.arrangement == "row":
        slowest = min([processor.constants.row_bytes_per_s for processor in processors.cards])
        return tokens * exchange.row_bytes * (busy - 1) / busy / slowest
    if exchange.peer_bytes_per_s is not None:
        reached = exchange.peer_bytes_per_s * _PEER_RATE_FRACTION
        return tokens * exchange.reductions * exchange.hidden_state_bytes * reduction_steps(busy) / reached
    slowest = min([processor.constants.staged_bytes_per_s for processor in processors.cards])
    copies = reduction_steps(busy) * busy
    return tokens * exchange.reductions * exchange.hidden_state_bytes * copies / slowest
