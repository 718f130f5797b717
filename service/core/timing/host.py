"""What a processor's cores cost: weights go through them one by one, some types of them slower than memory brings."""

from math import hypot
from typing import Final

from service.core.timing.assumed import ASSUMED_HOST_CORES
from service.core.timing.constants import BackendConstants
from service.core.timing.processor import Processor
from service.core.timing.work import Part, Work

# Types whose values are looked up in a codebook, and types of which four or eight rows are laid out together when they
# are loaded. Source: ggml/src/ggml-cpu/quants.c and repack.cpp (llama.cpp in llama-cpp-python 0.3.36).
_CODEBOOKS: Final = frozenset({"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s"})
_REPACKED: Final = frozenset({"q4_0", "iq4_nl"})


def reading_or_computing_s(reading_s: float, work: Work, part: Part, processor: Processor) -> float:
    """Time of weights that cores multiply as memory brings them: the longer of both shows; cards only read."""
    core = processor.constants.core_weights_per_s
    if not core:
        return reading_s
    facts = work.weights
    weights = part.dense_bytes * facts.dense_flops_per_byte / 2
    weights += work.experts_read(part, work.step_tokens) * facts.expert_flops_per_byte / 2
    return hypot(reading_s, weights * cost(work, processor.constants) / (core * cores(work)))


def prompt_factor(work: Work, processor: Processor) -> float:
    """How much longer a prompt's products take than by as many cores as are assumed and of types like Q4_K."""
    if not processor.constants.core_weights_per_s:
        return 1.0
    return cost(work, processor.constants) * ASSUMED_HOST_CORES / cores(work)


def cores(work: Work) -> int:
    """Cores that compute: as stated for a measurement, else as many as are assumed."""
    return work.threads or ASSUMED_HOST_CORES


def cost(work: Work, constants: BackendConstants) -> float:
    """Time of the weights' types against types like Q4_K, by how many weights each has."""
    counts = {each.name: share * each.block_elements / each.block_bytes for each, share in work.weights.type_fractions}
    every = sum(counts.values())
    if not every:
        return 1.0
    return sum(count * _cost_of(name, constants) for name, count in counts.items()) / every


def _cost_of(name: str, constants: BackendConstants) -> float:
    if name in _CODEBOOKS:
        return constants.codebook_factor
    return constants.repacked_factor if name in _REPACKED else 1.0
