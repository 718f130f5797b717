"""Compute buffers of golden rows, as planned and as llama.cpp allocated them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from service.core.engines.llamacpp import placement as parts
from service.core.engines.llamacpp.compute import ComputeQuestion, compute_buffers
from service.core.engines.llamacpp.compute.graph_inputs import graph_inputs
from service.core.engines.llamacpp.compute.reserve import buffers_of, cells_by_kind
from service.core.engines.llamacpp.placement_inputs import placement_inputs
from service.core.engines.llamacpp.settings import Tool
from service.core.types import Workload
from tests.golden_rows import GoldenRow
from tests.rigs import rpc_rig

Planned: TypeAlias = Callable[[GoldenRow, Tool], list[int]]


def compute_question(row: GoldenRow, tool: Tool, *, fit_view: bool = False) -> ComputeQuestion:
    """The row's configuration; fit_view: as llama.cpp's own fit works with it."""
    workload = Workload(context_tokens=row.config["ctx"], parallel=row.config.get("n_parallel", 1))
    plan = placement_inputs(row.model, rpc_rig(row.n_devices), row.settings(tool), workload)
    loaded = plan.loaded
    return ComputeQuestion(
        model=loaded.model,
        hp=loaded.hp,
        ctx=plan.ctx,
        slots=loaded.slots,
        backends=loaded.backends,
        tensor_location=loaded.layout.locations,
        pipeline_copies=parts.SCHED_COPIES if loaded.pipelines else 1,
        fit_view=fit_view,
    )


def planned_compute(row: GoldenRow, tool: Tool, *, fit_view: bool = False) -> list[int]:
    """Bytes of every device's buffer and, last, of the host's."""
    found = compute_buffers(compute_question(row, tool, fit_view=fit_view))
    return [*found.device_bytes, found.host_bytes]


def planned_without_merging(row: GoldenRow, tool: Tool) -> list[int]:
    """The same from a graph that leaves out no block that repeats others."""
    question = compute_question(row, tool)
    found = buffers_of(graph_inputs(question, symbolic=False, every_block=True), cells_by_kind(question))
    return [*found.device_bytes, found.host_bytes]


def observed_compute(row: GoldenRow, key: str) -> list[int] | None:
    """The same as `key` of the row gives it; None where the row lacks it."""
    buffers = [*row.observed["devices"], row.observed["host"]]
    return [buffer[key] for buffer in buffers] if all(key in buffer for buffer in buffers) else None


TOOLS: Final[tuple[tuple[Tool, str], ...]] = (("llama-server", "compute_bytes"), ("llama-bench", "compute_bytes_bench"))
"""Tools, and the keys of what they allocate."""

MEASURED_AS_BENCHMARK = frozenset(f"quants-{number:04}" for number in range(28, 35))
"""Rows of Llama 3.1 405B whose only figures have logits for every token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeFigure:
    """One buffer of one golden row. buffer: "gpu0", … or "host"."""

    row: GoldenRow
    tool: Tool
    buffer: str
    planned_bytes: int
    observed_bytes: int

    @property
    def error(self) -> float:
        """Signed relative error; below a MiB relative to a MiB."""
        return (self.planned_bytes - self.observed_bytes) / max(self.observed_bytes, 2**20)


def compute_figures(row: GoldenRow, plan: Planned = planned_compute) -> list[ComputeFigure]:
    """Every buffer the row has figures of, for both tools."""
    figures = []
    for tool, key in TOOLS:
        logits_of_all = row.file == "architectures" or row.id in MEASURED_AS_BENCHMARK
        observed = observed_compute(row, key)
        if observed is not None:
            planned = plan(row, "llama-bench" if logits_of_all else tool)
            names = [*(f"gpu{i}" for i in range(row.n_devices)), "host"]
            figures += [
                ComputeFigure(row=row, tool=tool, buffer=name, planned_bytes=mine, observed_bytes=seen)
                for name, mine, seen in zip(names, planned, observed, strict=True)
            ]
    return figures
