"""How long a prompt takes: arithmetic of every stage, overlapped where the engine pipelines."""

from datetime import date
from math import sqrt

from service.core.timing.constants import OLD_PREFILL, SUPERBLOCKS_SINCE, TUNED_SINCE
from service.core.timing.host import prompt_factor
from service.core.timing.processor import Processor, Processors
from service.core.timing.reductions import exchange_s, meeting_s
from service.core.timing.work import Part, Work

# Batches below this are computed where their weights lie. Source: ggml_backend_cuda_device_offload_op,
# min_batch_size, ggml/src/ggml-cuda/ggml-cuda.cu (llama.cpp in llama-cpp-python 0.3.36).
_LEAST_OFFLOADED_TOKENS = 32
# a 16-bit float, written and read
_UNPACKED_BYTES = 4


def prefill_s(work: Work, processors: Processors) -> float | None:
    """Time of a whole prompt over cards and host; None where a rate that counts is not known.

    Stages follow each other; a layer split with several ubatches overlaps a part of them. Cards that share every layer
    take the slowest one's time, and tell each other the results of every ubatch.
    """
    stages = []
    for part, processor in zip(work.cards, processors.cards, strict=True):
        if not (part.dense_bytes or part.expert_bytes):
            continue
        time_s = stage_s(work, part, processor)
        if time_s is None:
            return None
        stages.append((time_s, processor))
    times = [time_s for time_s, _ in stages]
    if not times:
        total_s = 0.0
    elif work.arrangement == "serial":
        total_s = serial_s(work, times, stages[0][1])
    else:
        total_s = max(times) + _exchange_s(work, processors, len(times)) + stages[0][1].constants.prompt_s
    return total_s + _host_s(work, processors)


def serial_s(work: Work, times: list[float], first: Processor) -> float:
    """Stages one after the other, a part of them overlapped over ubatches.

    The first ubatch fills the stages, every further one follows after the slowest stage, or as soon as one of those
    under way leaves the last: there are only so many copies of a graph's inputs.

    Source: GGML_SCHED_MAX_COPIES, ggml/src/ggml-backend.cpp (llama.cpp in llama-cpp-python 0.3.36); speed study.
    """
    total_s, constants = sum(times), first.constants
    if work.copies > 1 and len(times) > 1:
        following_s = max(*times, total_s / work.copies)
        overlapped_s = (total_s + (work.ubatches - 1) * following_s) / work.ubatches
        share = constants.pipelined_fraction
        total_s = (1 - share) * total_s + share * overlapped_s
    return total_s + constants.prompt_s + (len(times) - 1) * work.ubatches * constants.ubatch_device_s


def stage_s(work: Work, part: Part, processor: Processor) -> float | None:
    """Time of one stage alone; None where a rate is not known.

    Its matrices' arithmetic and the reading of its weights overlap, the longer of the two shows; attention and
    launches add up. A build's age stretches the arithmetic.
    """
    rates, reading = processor.prompt_flops_per_s, processor.reading_bytes_per_s
    attention = processor.prompt_attention_flops_per_s
    if rates is None or attention is None or not reading:
        return None
    keeps, slow = processor.limited.prefill_fraction, slowness(work, processor)
    rows = work.prompt_tokens / work.ubatches
    matrices_s = slow * matrices_flops(work, part, rows, processor) / (rates[work.weights.half_precision] * keeps)
    matrices_s *= missing_kernels(work, processor) * prompt_factor(work, processor)
    matrices_s += unpacking_s(work, part, rows, processor)
    reading_s = work.ubatches * (part.dense_bytes + work.experts_read(part, rows)) / reading
    unfused = 1.0 if work.flash_attention else processor.constants.prefill_unfused_factor
    attention_s = slow * unfused * part.prompt_attention_flops / (attention * keeps)
    launches_s = work.ubatches * (part.kernels + part.expert_kernels) * processor.constants.prefill_kernel_s
    return sqrt(matrices_s**2 + reading_s**2) + attention_s + launches_s


def matrices_flops(work: Work, part: Part, rows: float, processor: Processor) -> float:
    """Operations of the whole prompt in a part's matrices, as if experts were as well filled as others.

    Matrices of routed experts get few rows each, which costs (1 + R / rows) times their arithmetic.
    """
    weights = work.weights
    dense = part.dense_bytes * weights.dense_flops_per_byte
    if not part.expert_bytes:
        return work.prompt_tokens * dense
    crowding = 1 + processor.constants.expert_rows / (rows * weights.used_fraction)
    experts = part.expert_bytes * weights.used_fraction * weights.expert_flops_per_byte
    return work.prompt_tokens * (dense + crowding * work.expert_stretch * experts)


def missing_kernels(work: Work, processor: Processor) -> float:
    """How much longer products take in a build that lacks kernels for these weights or this card.

    Before December 2025 quantised weights on AMD's matrix units were left to rocBLAS, which has hardly any kernels for
    some generations; before January 2026 Vulkan's tiles were small on them, and before November 2025 it had integer dot
    products for blocks of 32 only; before June 2026 SYCL multiplied 32-bit floats by default. Source: pull requests
    beside the dates.
    """
    tuned = work.tuned
    if tuned is None:
        tuned = work.built is None or work.built >= TUNED_SINCE.get(processor.backend, date.min)
    factor = 1.0 if tuned else 1 / processor.untuned_factor
    if work.weights.superblocks and work.built is not None and work.built < SUPERBLOCKS_SINCE:
        factor *= processor.constants.superblock_factor
    return factor


def unpacking_s(work: Work, part: Part, rows: float, processor: Processor) -> float:
    """Time to write out quantised weights as 16-bit floats for a library's product, and to read those, every ubatch.

    Source: ggml_sycl_op_mul_mat_sycl, ggml/src/ggml-sycl/ggml-sycl.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    weights, share = work.weights, processor.constants.unpacking_fraction
    if not share or not processor.reading_bytes_per_s or weights.half_precision:
        return 0.0
    operations = part.dense_bytes * weights.dense_flops_per_byte
    operations += work.experts_read(part, rows) * weights.expert_flops_per_byte
    return work.ubatches * operations / 2 * _UNPACKED_BYTES / (processor.reading_bytes_per_s * share)


def slowness(work: Work, processor: Processor) -> float:
    """How much longer a build of that date takes for a prompt than the newest."""
    if work.built is None:
        return 1.0
    for period in OLD_PREFILL:
        if work.built < period.before:
            return float(getattr(processor.constants, period.constant))
    return 1.0


def _exchange_s(work: Work, processors: Processors, busy: int) -> float:
    """What cards that share every layer tell each other in all ubatches."""
    if busy < 2 or not work.exchange.reductions:
        return 0.0
    meetings_s = work.ubatches * work.exchange.reductions * meeting_s(work, processors, busy)
    return meetings_s + exchange_s(work, processors, busy, work.prompt_tokens)


def _host_s(work: Work, processors: Processors) -> float:
    """What lies on the host is computed there, or copied to the first card for every ubatch, whichever is shorter.

    Source: op offload of batches, ggml/src/ggml-backend.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    host = work.host
    if not (host.dense_bytes or host.expert_bytes):
        return 0.0
    ways = [stage_s(work, host, processors.host)]
    card = processors.cards[0] if processors.cards else None
    if card and card.link_bytes_per_s and work.prompt_tokens >= _LEAST_OFFLOADED_TOKENS:
        copying_s = work.ubatches * (host.dense_bytes + host.expert_bytes) / card.link_bytes_per_s
        computing_s = stage_s(work, host, card)
        ways.append(None if computing_s is None else copying_s + computing_s)
    return min([way for way in ways if way is not None], default=0.0)
