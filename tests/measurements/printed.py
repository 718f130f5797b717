"""Output of llama-bench for tests, in every format and in the layouts that its versions printed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

OBSERVED = Path(__file__).parents[1] / "observed" / "bench_outputs"

# columns in their order; source: llama-bench's source of these months, ggml-org/llama.cpp
LAYOUTS: Mapping[str, str] = {
    "2023-09": "build_commit build_number cuda opencl metal gpu_blas blas cpu_info gpu_info model_filename model_type "
    "model_size model_n_params n_batch n_threads f16_kv n_gpu_layers main_gpu mul_mat_q tensor_split n_prompt n_gen "
    "test_time avg_ns stddev_ns avg_ts stddev_ts",
    "2024-05": "build_commit build_number cuda opencl vulkan kompute metal sycl gpu_blas blas cpu_info gpu_info "
    "model_filename model_type model_size model_n_params n_batch n_ubatch n_threads type_k type_v n_gpu_layers "
    "split_mode main_gpu no_kv_offload flash_attn tensor_split use_mmap embeddings n_prompt n_gen test_time avg_ns "
    "stddev_ns avg_ts stddev_ts",
    "2024-12": "build_commit build_number cuda vulkan kompute metal sycl rpc gpu_blas blas cpu_info gpu_info "
    "model_filename model_type model_size model_n_params n_batch n_ubatch n_threads cpu_mask cpu_strict poll type_k "
    "type_v n_gpu_layers split_mode main_gpu no_kv_offload flash_attn tensor_split use_mmap embeddings n_prompt n_gen "
    "test_time avg_ns stddev_ns avg_ts stddev_ts",
    "2025-05": "build_commit build_number cpu_info gpu_info backends model_filename model_type model_size "
    "model_n_params n_batch n_ubatch n_threads cpu_mask cpu_strict poll type_k type_v n_gpu_layers split_mode main_gpu "
    "no_kv_offload flash_attn tensor_split tensor_buft_overrides defrag_thold use_mmap embeddings n_prompt n_gen "
    "n_depth test_time avg_ns stddev_ns avg_ts stddev_ts",
    "2026-10": "build_commit build_number cpu_info gpu_info backends model_filename model_type model_size "
    "model_n_params n_batch n_ubatch n_threads cpu_mask cpu_strict poll type_k type_v n_gpu_layers n_cpu_moe "
    "split_mode main_gpu no_kv_offload flash_attn devices tensor_split tensor_buft_overrides load_mode lazy_mode "
    "embeddings no_op_offload no_host repack fit_target fit_min_ctx n_prompt n_gen n_depth test_time avg_ns stddev_ns "
    "avg_ts stddev_ts",
}
BOOLEANS = {
    "cuda", "opencl", "vulkan", "kompute", "metal", "sycl", "gpu_blas", "blas", "f16_kv", "mul_mat_q", "use_mmap",
    "no_kv_offload", "embeddings", "cpu_strict", "no_host", "repack",
}  # fmt: skip
TEXTS = {
    "build_commit", "cpu_info", "gpu_info", "backends", "model_filename", "model_type", "cpu_mask", "type_k", "type_v",
    "split_mode", "tensor_split", "tensor_buft_overrides", "devices", "load_mode", "lazy_mode", "test_time", "rpc",
}  # fmt: skip
DEFAULTS: Mapping[str, Any] = {
    "build_commit": "2b2afade", "build_number": 8829, "cuda": 1, "opencl": 0, "vulkan": 0, "kompute": 0, "metal": 0,
    "sycl": 0, "rpc": "", "gpu_blas": 1, "blas": 1, "cpu_info": "AMD Ryzen 9 7950X 16-Core Processor",
    "gpu_info": "NVIDIA GeForce RTX 3090", "backends": "CUDA", "model_filename": "/models/llama-3.1-8b-Q4_K_M.gguf",
    "model_type": "llama 8B Q4_K - Medium", "model_size": 4912898304, "model_n_params": 8030261312, "n_batch": 2048,
    "n_ubatch": 512, "n_threads": 16, "cpu_mask": "0x0", "cpu_strict": 0, "poll": 50, "type_k": "f16",
    "type_v": "f16", "f16_kv": 1, "mul_mat_q": 1, "n_gpu_layers": 99, "n_cpu_moe": 0, "split_mode": "layer",
    "main_gpu": 0, "no_kv_offload": 0, "flash_attn": 0, "devices": "auto", "tensor_split": "0.00",
    "tensor_buft_overrides": "none", "defrag_thold": "-1.000000", "use_mmap": 1, "load_mode": "auto",
    "lazy_mode": "auto", "embeddings": 0, "no_op_offload": 0, "no_host": 0, "repack": 1, "fit_target": 0,
    "fit_min_ctx": 0, "n_prompt": 0, "n_gen": 128, "n_depth": 0, "test_time": "2026-04-19T12:00:00Z",
    "avg_ns": 914000000, "stddev_ns": 1800000, "avg_ts": 140.04, "stddev_ts": 0.28,
}  # fmt: skip


def row(**changes: Any) -> Mapping[str, Any]:
    """One test of Llama 3.1 8B on one RTX 3090, with changes."""
    assert changes.keys() <= DEFAULTS.keys()
    return {**DEFAULTS, **changes}


def as_csv(rows: Sequence[Mapping[str, Any]], layout: str = "2026-10") -> str:
    columns = LAYOUTS[layout].split()
    lines = [",".join(columns)]
    lines += [",".join(f'"{row[column]!s}"' for column in columns) for row in rows]
    return "\n".join(lines) + "\n"


def as_objects(rows: Sequence[Mapping[str, Any]], layout: str = "2026-10") -> list[dict[str, Any]]:
    """Rows with the types that llama-bench's JSON has."""
    columns = LAYOUTS[layout].split()
    return [
        {
            **{column: bool(row[column]) if column in BOOLEANS else row[column] for column in columns},
            "samples_ns": [row["avg_ns"]] * 5,
            "samples_ts": [row["avg_ts"]] * 5,
        }
        for row in rows
    ]


def as_json(rows: Sequence[Mapping[str, Any]], layout: str = "2026-10") -> str:
    return json.dumps(as_objects(rows, layout), indent=2) + "\n"


def as_jsonl(rows: Sequence[Mapping[str, Any]], layout: str = "2026-10") -> str:
    return "".join(json.dumps(each) + "\n" for each in as_objects(rows, layout))


def as_sql(rows: Sequence[Mapping[str, Any]], layout: str = "2026-10") -> str:
    columns = LAYOUTS[layout].split()
    table = "llama_bench" if layout >= "2025" else "test"
    declared = ",\n".join(f"  {column} {'TEXT' if column in TEXTS else 'INTEGER'}" for column in columns)
    lines = [f"CREATE TABLE IF NOT EXISTS {table} (\n{declared}\n);\n"]
    for each in rows:
        values = ", ".join(f"'{each[column]}'" for column in columns)
        lines.append(" ".join(["INSERT INTO", table, f"({', '.join(columns)})", f"VALUES ({values});"]))
    return "\n".join(lines) + "\n"


def as_markdown(rows: Sequence[Mapping[str, Any]], *columns: str) -> str:
    """The default table, with the columns that differ from the defaults by their short names."""
    names = {
        "ngl": "n_gpu_layers",
        "fa": "flash_attn",
        "sm": "split_mode",
        "ts": "tensor_split",
        "threads": "n_threads",
    }
    head = ["model", "size", "params", "backend", *columns, "test", "t/s"]
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('-----:' for _ in head)} |"]
    for each in rows:
        test = f"pp{each['n_prompt']}" if each["n_prompt"] else f"tg{each['n_gen']}"
        test += f" @ d{each['n_depth']}" if each["n_depth"] else ""
        cells = [
            each["model_type"],
            f"{each['model_size'] / 2**30:.2f} GiB",
            f"{each['model_n_params'] / 1e9:.2f} B",
            each["backends"],
            *(str(each[names.get(column, column)]) for column in columns),
            test,
            f"{each['avg_ts']:.2f} \u00b1 {each['stddev_ts']:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"build: {rows[0]['build_commit']} ({rows[0]['build_number']})", ""])
