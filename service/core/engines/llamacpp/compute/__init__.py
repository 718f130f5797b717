"""Compute buffers: the scratch memory of every device and of the host.

llama.cpp builds the graph of its largest batch, assigns its operations to backends and lets an allocator reuse memory
as tensors die; a buffer is as large as the furthest address used. The same is done here, on shapes alone: `graphs` has
the graphs, `schedule` the assignment, `liveness` what takes memory when, `footprint` and `pool` the addresses.

Source: llama_context::sched_reserve and graph_reserve, src/llama-context.cpp:616-768, 2523-2600
(llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.engines.llamacpp.compute.question import ComputeBuffers, ComputeQuestion
from service.core.engines.llamacpp.compute.reserve import (
    Reserved,
    buffers_at_length,
    cells_of,
    compute_buffers,
    may_be_symbolic,
    reserve_for_all_lengths,
)

__all__ = [
    "ComputeBuffers",
    "ComputeQuestion",
    "Reserved",
    "buffers_at_length",
    "cells_of",
    "compute_buffers",
    "may_be_symbolic",
    "reserve_for_all_lengths",
]
