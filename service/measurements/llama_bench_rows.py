"""A row of llama-bench, however it was printed: its columns by name, of today's and earlier versions."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from service.measurements.runs import Figure, Flags, ModelSeen, Printed, Setup
from service.measurements.values import device_names, file_name, flag, number, whole

TOOL: Final = "llama-bench"
RATE_COLUMN: Final = "avg_ts"

KNOWN_COLUMNS: Final = frozenset(
    {
        "build_commit", "build_number", "cpu_info", "gpu_info", "backends", "model_filename", "model_type",
        "model_size", "model_n_params", "n_batch", "n_ubatch", "n_threads", "cpu_mask", "cpu_strict", "poll", "type_k",
        "type_v", "n_gpu_layers", "n_cpu_moe", "split_mode", "main_gpu", "no_kv_offload", "flash_attn", "devices",
        "tensor_split", "tensor_buft_overrides", "load_mode", "lazy_mode", "embeddings", "no_op_offload", "no_host",
        "repack", "fit_target", "fit_min_ctx", "n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns",
        "avg_ts", "stddev_ts", "samples_ns", "samples_ts",
        # of earlier versions: one column per backend (2023 to 2024), memory mapping, half-precision caches
        "cuda", "opencl", "vulkan", "kompute", "metal", "sycl", "rpc", "gpu_blas", "blas", "cann", "f16_kv",
        "mul_mat_q", "use_mmap", "use_direct_io", "rpc_servers", "n_ctx",
    }
)  # fmt: skip
"""Columns of test::get_fields, tools/llama-bench/llama-bench.cpp:1598 (llama.cpp in llama-cpp-python 0.3.36), and of
its earlier versions back to the README of September 2023."""

_BACKEND_COLUMNS: Final = ("cuda", "opencl", "vulkan", "kompute", "metal", "sycl", "cann", "rpc")
_AUTO: Final = "-1"


def setup_of(row: Mapping[str, object]) -> Setup:
    """What the row was measured on."""
    return Setup(
        engine="llama.cpp",
        tool=TOOL,
        model=_model(row),
        flags=_flags(row),
        backends=_backends(row),
        gpus=device_names(str(row["gpu_info"])) if "gpu_info" in row else None,
        cpu=_text(row, "cpu_info"),
        build_number=whole(row.get("build_number", "")),
        build_commit=_text(row, "build_commit"),
        tested_at=_text(row, "test_time"),
    )


def figures_of(row: Mapping[str, object]) -> Iterator[Figure]:
    """The figure of the row; none where it has no tests or no rate."""
    prompt, output = whole(row.get("n_prompt", 0)), whole(row.get("n_gen", 0))
    rate = number(str(row.get(RATE_COLUMN, "")))
    if rate is None or prompt is None or output is None or prompt + output <= 0:
        return
    yield test_figure(prompt, output, whole(row.get("n_depth", 0)) or 0, rate, number(str(row.get("stddev_ts", ""))))


def test_figure(prompt: int, output: int, depth: int, rate: float, stddev: float | None) -> Figure:
    """A test as llama-bench runs it: a prompt, an answer, or both together at one rate, behind `depth` tokens.

    Source: markdown_printer::print_test, tools/llama-bench/llama-bench.cpp:2086 (llama.cpp in llama-cpp-python
    0.3.36).
    """
    if output == 0:
        metric = "prefill_tokens_per_s"
    elif prompt == 0:
        metric = "decode_tokens_per_s"
    else:
        metric = "combined_tokens_per_s"
    return Figure(
        metric=metric,  # type: ignore[arg-type]
        value=rate,
        stddev=stddev,
        prompt_tokens=prompt,
        cached_tokens=depth,
        output_tokens=output,
    )


def _model(row: Mapping[str, object]) -> ModelSeen:
    size, parameters = whole(row.get("model_size", "")), whole(row.get("model_n_params", ""))
    return ModelSeen(
        description=_text(row, "model_type"),
        file_name=file_name(str(row.get("model_filename", ""))),
        size_bytes=None if size is None else Printed.exactly(size),
        parameters=None if parameters is None else Printed.exactly(parameters),
    )


def _flags(row: Mapping[str, object]) -> Flags:
    attention = _attention(row)
    return Flags(
        n_batch=whole(row.get("n_batch", "")),
        n_ubatch=whole(row.get("n_ubatch", "")),
        cache_type_k=_cache_type(row, "type_k"),
        cache_type_v=_cache_type(row, "type_v"),
        n_gpu_layers=whole(row.get("n_gpu_layers", "")),
        n_cpu_moe=whole(row.get("n_cpu_moe", "")) or None,
        split_mode=_text(row, "split_mode"),
        main_gpu=whole(row.get("main_gpu", "")),
        kv_offload=not flag(row.get("no_kv_offload", False)),
        flash_attn=attention if isinstance(attention, bool) else None,
        flash_attn_is_auto=attention == "auto",
        devices=devices_of(_text(row, "devices")),
        tensor_split=shares_of(_text(row, "tensor_split")),
        override_tensor=overrides_of(_text(row, "tensor_buft_overrides")),
    )


def _attention(row: Mapping[str, object]) -> bool | str | None:
    """Flash attention: on, off, "auto", or None where it is unreadable; builds without the column had none."""
    stated = row.get("flash_attn", False)
    if str(stated).lower() in (_AUTO, "auto"):
        return "auto"
    return flag(stated)


def devices_of(text: str | None) -> tuple[str, ...]:
    """Devices chosen by name ("CUDA0/CUDA1"); () for all."""
    return () if text in (None, "auto") else tuple(part.strip() for part in (text or "").split("/"))


def shares_of(text: str | None) -> tuple[float, ...]:
    """Shares of the cards ("1.00/1.00"); () where none were given, which is printed as zero."""
    shares = [number(part) for part in re.split("[/;,]", text or "")]
    known = tuple(share for share in shares if share is not None)
    return known if len(known) == len(shares) and any(known) else ()


def overrides_of(text: str | None) -> tuple[str, ...]:
    """Entries of -ot."""
    return () if text in (None, "none") else tuple(part.strip() for part in (text or "").split(";") if part.strip())


def _cache_type(row: Mapping[str, object], column: str) -> str | None:
    if column in row:
        return _text(row, column)
    if "f16_kv" in row:
        return "f16" if flag(row["f16_kv"]) else "f32"
    return None


def _backends(row: Mapping[str, object]) -> tuple[str, ...]:
    """Backends by name, or those whose column of an earlier version is set; such a build without any was for CPUs."""
    if "backends" in row:
        return device_names(str(row["backends"]))
    columns = [column for column in _BACKEND_COLUMNS if column in row]
    chosen = tuple(column for column in columns if _text(row, column) not in (None, "0", "False", "false"))
    return chosen or (("cpu",) if columns else ())


def _text(row: Mapping[str, object], column: str) -> str | None:
    text = str(row.get(column, "")).strip()
    return text[:400] or None
