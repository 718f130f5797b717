"""A plan as one flat row, for spreadsheets."""

import csv
import io
from collections.abc import Mapping, Sequence

from service.contract.cells import inert
from service.contract.plan import EnginePlan, LlamaCppEnginePlan, Plan

Cell = str | int | float | bool | None
ROW_COLUMNS = (
    "id", "model", "quant", "gpus", "context_tokens", "parallel", "verdict", "fits", "max_context_tokens",
    "shortfall_bytes", "busiest_device_bytes", "least_headroom_bytes", "host_bytes", "decode_tokens_per_s_low",
    "decode_tokens_per_s", "decode_tokens_per_s_high", "aggregate_decode_tokens_per_s", "prefill_tokens_per_s",
    "ttft_s", "limited_by", "system_peak_w", "recommended_psu_w", "energy_wh_per_1000_tokens", "engine", "split_mode",
    "n_gpu_layers", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "warnings", "command",
)  # fmt: skip
"""Columns of every row, in their order."""

_DIVISION: dict[str, Cell] = dict.fromkeys(
    (
        "engine",
        "split_mode",
        "n_gpu_layers",
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
    )
)


def row_of_plan(plan: Plan) -> Mapping[str, Cell]:
    """The figures people compare, by column."""
    speed, power = plan.speed, plan.power
    energy = power.energy_wh_per_1000_tokens if power else None
    return {
        "id": plan.id,
        "model": plan.model.name,
        "quant": plan.model.quant,
        "gpus": ", ".join(device.gpu for device in plan.devices),
        "context_tokens": plan.workload.context_tokens,
        "parallel": plan.workload.parallel,
        "verdict": plan.verdict,
        "fits": plan.fits,
        "max_context_tokens": plan.max_context_tokens,
        "shortfall_bytes": plan.shortfall_bytes,
        "busiest_device_bytes": max((device.total_bytes for device in plan.devices), default=0),
        "least_headroom_bytes": min((device.headroom_bytes for device in plan.devices), default=None),
        "host_bytes": plan.host.total_bytes,
        "decode_tokens_per_s_low": speed.decode_tokens_per_s.low if speed else None,
        "decode_tokens_per_s": speed.decode_tokens_per_s.mid if speed else None,
        "decode_tokens_per_s_high": speed.decode_tokens_per_s.high if speed else None,
        "aggregate_decode_tokens_per_s": speed.aggregate_decode_tokens_per_s.mid if speed else None,
        "prefill_tokens_per_s": speed.prefill_tokens_per_s.mid if speed and speed.prefill_tokens_per_s else None,
        "ttft_s": speed.ttft_s.mid if speed and speed.ttft_s else None,
        "limited_by": speed.limited_by if speed else None,
        "system_peak_w": power.system_peak_w if power else None,
        "recommended_psu_w": power.recommended_psu_w if power else None,
        "energy_wh_per_1000_tokens": energy.mid if energy else None,
        **_division(plan.engine),
        "warnings": " ".join(warning.code for warning in plan.warnings),
        "command": plan.command.text,
    }


def _division(engine: EnginePlan) -> Mapping[str, Cell]:
    """How the cards share the model; the same columns for every engine, empty where one has no such thing."""
    if isinstance(engine, LlamaCppEnginePlan):
        return _DIVISION | {"engine": engine.name, "split_mode": engine.split_mode, "n_gpu_layers": engine.n_gpu_layers}
    return _DIVISION | {
        "engine": engine.name,
        "tensor_parallel_size": engine.tensor_parallel_size,
        "pipeline_parallel_size": engine.pipeline_parallel_size,
        "data_parallel_size": engine.data_parallel_size,
    }


def csv_of_plan(plan: Plan) -> str:
    """A header and one row."""
    return csv_of_rows([row_of_plan(plan)])


def csv_of_rows(rows: Sequence[Mapping[str, Cell]]) -> str:
    """A header and rows of the same columns; text that a spreadsheet would run as a formula is kept as text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerows(rows[:1])
    for row in rows:
        writer.writerow(["" if cell is None else _plain(cell) for cell in row.values()])
    return text.getvalue()


def _plain(cell: Cell) -> Cell:
    return inert(cell) if isinstance(cell, str) else cell
