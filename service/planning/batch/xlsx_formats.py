"""How the columns of answers look in a workbook: number formats, widths and colours."""

from typing import Final

_BYTES: Final = '#,##0.00,,,"\u00a0GB"'
NUMBER_FORMATS: Final = {
    "planned_context_tokens": "#,##0",
    "max_context_tokens": "#,##0",
    "shortfall_bytes": _BYTES,
    "busiest_device_bytes": _BYTES,
    "least_headroom_bytes": _BYTES,
    "host_bytes": _BYTES,
    "decode_tokens_per_s_low": "#,##0.0",
    "decode_tokens_per_s": "#,##0.0",
    "decode_tokens_per_s_high": "#,##0.0",
    "aggregate_decode_tokens_per_s": "#,##0.0",
    "prefill_tokens_per_s": "#,##0",
    "ttft_s": '0.00"\u00a0s"',
    "system_peak_w": '#,##0"\u00a0W"',
    "recommended_psu_w": '#,##0"\u00a0W"',
    "energy_wh_per_1000_tokens": '0.00"\u00a0Wh"',
}
"""By column; the cells hold bytes, tokens, seconds and watts whatever they show."""
WIDTHS: Final = {"command": 60, "problem": 60, "warnings": 30, "plan_id": 14, "planned_gpus": 28}
DEFAULT_WIDTH: Final = 14
VERDICT_COLOURS: Final = {
    "fits": ("#C6EFCE", "#006100"),
    "fits_with_host_offload": ("#FFEB9C", "#7F6000"),
    "does_not_fit": ("#FFC7CE", "#9C0006"),
}
"""Background and text by verdict."""
CHARTS: Final = (
    ("Decode speed", "decode_tokens_per_s", "tokens per second"),
    ("Memory", "busiest_device_bytes", "bytes on the fullest card"),
)
"""Sheet, column and axis of each chart."""
