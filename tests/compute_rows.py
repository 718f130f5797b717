"""Compute buffers of golden rows, as planned and as llama.cpp allocated them."""

from service.core.engines.llamacpp import placement as parts
from service.core.engines.llamacpp.compute import ComputeQuestion, compute_buffers
from service.core.engines.llamacpp.placement_inputs import placement_inputs
from service.core.engines.llamacpp.settings import Tool
from service.core.types import Workload
from tests.golden_rows import GoldenRow
from tests.rigs import rpc_rig


def planned_compute(row: GoldenRow, tool: Tool, *, fit_view: bool = False) -> list[int]:
    """Bytes of every device's buffer and, last, of the host's; fit_view: what llama.cpp's own fit works with."""
    workload = Workload(context_tokens=row.config["ctx"], parallel=row.config.get("n_parallel", 1))
    plan = placement_inputs(row.model, rpc_rig(row.n_devices), row.settings(tool), workload)
    found = compute_buffers(
        ComputeQuestion(
            model=plan.model,
            hp=plan.hp,
            ctx=plan.ctx,
            slots=plan.slots,
            backends=plan.backends,
            tensor_location=plan.layout.locations,
            pipeline_copies=parts.SCHED_COPIES if parts._pipeline_parallel(plan) else 1,
            fit_view=fit_view,
        )
    )
    return [*found.device_bytes, found.host_bytes]


def observed_compute(row: GoldenRow, key: str) -> list[int] | None:
    """The same as `key` of the row gives it; None where the row lacks it."""
    buffers = [*row.observed["devices"], row.observed["host"]]
    return [buffer[key] for buffer in buffers] if all(key in buffer for buffer in buffers) else None
