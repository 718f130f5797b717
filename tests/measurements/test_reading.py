"""Whatever benchmark programs print is read as it stands, and what is not understood is reported."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.measurements.reading import read_report
from service.measurements.runs import Figure, Printed, Run
from service.measurements.text import decoded
from tests.measurements.printed import (
    LAYOUTS,
    OBSERVED,
    as_csv,
    as_json,
    as_jsonl,
    as_markdown,
    as_objects,
    as_sql,
    row,
)

PRINTERS = {"csv": as_csv, "json": as_json, "jsonl": as_jsonl, "sql": as_sql}
ROWS = [
    row(n_prompt=512, n_gen=0, avg_ts=4823.4, stddev_ts=12.3),
    row(n_prompt=0, n_gen=128, avg_ts=140.04, stddev_ts=0.28),
]
PASTED = """\
user@host:~/llama.cpp$ ./build/bin/llama-bench -m m.gguf -fa 1
ggml_cuda_init: found 2 CUDA devices:
  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes
  Device 1: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes
| model                        |       size |     params | backend    | ngl | fa |           test |                t/s |
| ---------------------------- | ---------: | ---------: | ---------- | --: | -: | -------------: | -----------------: |
| llama 8B Q4_K - Medium       |   4.58 GiB |     8.03 B | CUDA       |  99 |  1 |          pp512 |    5123.45 ± 12.34 |
| llama 8B Q4_K - Medium       |   4.58 GiB |     8.03 B | CUDA       |  99 |  1 |  tg128 @ d4096 |      130.01 ± 0.34 |

build: 92bc493 (5237)
"""


def only(text: str) -> Run:
    """The one run of a text without a line that was not understood."""
    report = read_report(text)
    assert report.unread == []
    (run,) = report.runs
    return run


@pytest.mark.parametrize("name", sorted(path.name for path in OBSERVED.iterdir()))
def test_every_observed_file_is_read_whole(name: str) -> None:
    """What llama-bench of October 2026 printed in each of its formats has all its tests and no unread line."""
    report = read_report((OBSERVED / name).read_text("utf-8"))
    assert report.unread == []
    assert len(report.runs) == (6 if name == "two_devices.json" else 2)
    assert {run.setup.build_commit for run in report.runs} == {"0c1e570"}
    assert {run.setup.model.description for run in report.runs} <= {
        "llama ?B (guessed) all F32", "qwen3 ?B (guessed) all F32",
    }  # fmt: skip


def test_devices_and_depths_of_an_observed_file() -> None:
    """Two servers, an even split, flash attention and depths are read from JSON."""
    runs = read_report((OBSERVED / "two_devices.json").read_text("utf-8")).runs
    assert {run.setup.gpus for run in runs} == {("127.0.0.1:50052", "127.0.0.1:50053")}
    assert {run.setup.flags.tensor_split for run in runs} == {(1.0, 1.0)}
    assert {run.setup.flags.flash_attn for run in runs} == {True}
    assert len({run.figure.cached_tokens for run in runs}) > 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", PRINTERS)
def test_layouts_of_every_version_say_the_same(layout: str, form: str) -> None:
    """From 2023 to 2026, in each format, the same two tests on the same card are read."""
    report = read_report(PRINTERS[form](ROWS, layout))
    assert report.unread == []
    assert [run.figure for run in report.runs] == [
        Figure(metric="prefill_tokens_per_s", value=4823.4, stddev=12.3, prompt_tokens=512, output_tokens=0),
        Figure(metric="decode_tokens_per_s", value=140.04, stddev=0.28, prompt_tokens=0, output_tokens=128),
    ]
    for run in report.runs:
        assert [backend.lower() for backend in run.setup.backends] == ["cuda"]
        assert run.setup.gpus == ("NVIDIA GeForce RTX 3090",)
        assert run.setup.build_number == 8829
        assert run.setup.model.size_bytes == Printed.exactly(4912898304)
        assert run.setup.model.file_name == "llama-3.1-8b-Q4_K_M.gguf"
        assert run.setup.flags.n_gpu_layers == 99
        assert run.setup.flags.flash_attn is False


@pytest.mark.parametrize("columns", [(), ("ngl",), ("ngl", "fa"), ("ngl", "sm", "fa", "ts", "type_k", "type_v")])
def test_tables_with_any_columns(columns: tuple[str, ...]) -> None:
    """A table shows only what differs from the defaults; what it does not show is not known."""
    flags = only(
        as_markdown([row(flash_attn=1, split_mode="row", tensor_split="3.00/1.00", type_k="q8_0")], *columns)
    ).setup.flags
    assert flags.n_gpu_layers == (99 if "ngl" in columns else None)
    assert flags.flash_attn == (True if "fa" in columns else None)
    assert flags.split_mode == ("row" if "sm" in columns else None)
    assert flags.tensor_split == ((3.0, 1.0) if "ts" in columns else ())
    assert flags.cache_type_k == ("q8_0" if "type_k" in columns else None)


def test_a_table_of_2023() -> None:
    """Early tables wrote "pp 512" and "mostly", and had no build line."""
    run = only(
        "| model | size | params | backend | ngl | test | t/s |\n| --- | ---: | ---: | --- | --: | --- | ---: |\n"
        "| llama 7B mostly Q4_0 | 3.56 GiB | 6.74 B | CUDA | 35 | pp 512 | 2400.01 ± 7.72 |\n"
    )
    assert (run.figure.prompt_tokens, run.figure.value, run.figure.stddev) == (512, 2400.01, 7.72)
    assert run.setup.build_number is None
    size = run.setup.model.size_bytes
    assert size is not None
    assert size.holds(3825065984)


def test_a_pasted_terminal_says_what_was_measured_on() -> None:
    """Cards come from the log before the table, the build from the line behind it."""
    report = read_report(PASTED)
    assert report.unread == []
    assert [run.figure.cached_tokens for run in report.runs] == [0, 4096]
    for run in report.runs:
        assert run.setup.gpus == ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090")
        assert (run.setup.build_commit, run.setup.build_number) == ("92bc493", 5237)


def test_two_pasted_runs_keep_their_own_builds_and_cards() -> None:
    """What one run says of itself is not said of the next."""
    second = PASTED.replace("RTX 3090", "RTX 5090").replace(
        "  Device 1: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes\n", ""
    )
    runs = read_report(PASTED + second.replace("92bc493 (5237)", "2b2afade (8829)")).runs
    assert [run.setup.build_number for run in runs] == [5237, 5237, 8829, 8829]
    assert runs[3].setup.gpus == ("NVIDIA GeForce RTX 5090",)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("  Device 0: AMD Radeon RX 7900 XTX, gfx1100 (0x1100), VMM: no, Wave Size: 32", ("AMD Radeon RX 7900 XTX",)),
        (
            "ggml_vulkan: 0 = AMD Radeon RX 9070 XT (RADV GFX1201) (radv) | uma: 0 | fp16: 1 | warp size: 64",
            ("AMD Radeon RX 9070 XT (RADV GFX1201)",),
        ),
        ("ggml_metal_device_init: GPU name:   Apple M4 Max", ("Apple M4 Max",)),
        ("ggml_metal_init: found device: Apple M1 Pro", ("Apple M1 Pro",)),
        (
            "| 0| [level_zero:gpu:0]|    Intel Arc A770 Graphics|  12.55|    512|    1024|   32| 16225M| 1.6.33578|",
            ("Intel Arc A770 Graphics",),
        ),
    ],
)
def test_cards_in_logs_of_every_backend(line: str, names: tuple[str, ...]) -> None:
    """Each backend says in its own words which cards it found."""
    assert only(f"{line}\n{as_markdown([row()], 'ngl')}").setup.gpus == names


def test_lines_that_are_not_understood_are_reported() -> None:
    """Prose, a broken row and foreign JSON are named with their line and the reason; the rest is read."""
    text = 'It is fast!\n{"speed": 3}\n' + as_csv(ROWS) + '"2b2afade","8829"\n'
    report = read_report(text)
    assert len(report.runs) == 2
    assert [(one.line, one.reason.split()[0]) for one in report.unread] == [(1, "is"), (2, "is"), (6, "has")]


def test_json_that_was_stopped_keeps_its_complete_tests() -> None:
    """llama-bench prints as tests end, so a stopped run lacks the end of its array."""
    whole = as_json(ROWS)
    report = read_report(whole[: whole.rindex("model_type")])
    assert [run.figure.value for run in report.runs] == [4823.4]
    assert [one.reason for one in report.unread] == ["begins JSON that does not end"]


def test_numbers_that_are_none_are_read_as_such() -> None:
    """A NaN that printf wrote into JSON becomes a figure that is none, to be told apart later."""
    text = as_json([row()]).replace("140.04,", "-nan,", 1).replace('"stddev_ts": 0.28', '"stddev_ts": inf')
    run = only(text)
    assert run.figure.value != run.figure.value


def test_text_of_other_systems_is_read() -> None:
    """PowerShell redirects as UTF-16, old consoles spoil the sign between mean and deviation."""
    table = as_markdown([row()], "ngl")
    assert only(decoded(table.encode("utf-16"))).figure.stddev == 0.28
    assert only(decoded(table.encode("cp850"))).figure.stddev == 0.28
    assert only(decoded(b"\xef\xbb\xbf" + table.replace("\n", "\r\n").encode())).figure.value == 140.04


def test_batched_bench_tables_and_lines_say_the_same() -> None:
    """The table and JSON Lines of llama-batched-bench have prompt and answer speeds by number of streams."""
    settings = {"n_kv_max": 4096, "n_batch": 2048, "n_ubatch": 512, "flash_attn": 1, "is_pp_shared": 0,
                "n_gpu_layers": 99, "n_threads": 8, "n_threads_batch": 8}  # fmt: skip
    values = [{"pp": 512, "tg": 128, "pl": pl, "n_kv": 640 * pl, "t_pp": 0.1, "speed_pp": 5120.0 + pl, "t_tg": 1.0,
               "speed_tg": 128.0 * pl, "t": 1.1, "speed": 581.8} for pl in (1, 4)]  # fmt: skip
    line = "main: " + ", ".join(f"{key} = {value}" for key, value in settings.items())
    table = (
        f"{line}\n\n|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s "
    )
    table += "|\n"
    table += "|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|\n"
    table += "".join("| " + " | ".join(str(value) for value in one.values()) + " |\n" for one in values)
    jsonl = "".join(json.dumps({**settings, **one}) + "\n" for one in values)
    from_table, from_lines = read_report(table), read_report(jsonl)
    assert from_table.unread == from_lines.unread == []
    assert [run.figure for run in from_table.runs] == [run.figure for run in from_lines.runs]
    assert [(run.figure.metric, run.figure.parallel, run.figure.value) for run in from_table.runs] == [
        ("prefill_tokens_per_s", 1, 5121.0),
        ("decode_tokens_per_s", 1, 128.0),
        ("prefill_tokens_per_s", 4, 5124.0),
        ("aggregate_decode_tokens_per_s", 4, 512.0),
    ]
    assert {run.setup.flags for run in from_table.runs} == {run.setup.flags for run in from_lines.runs}
    assert from_table.runs[0].setup.flags.flash_attn is True


VLLM_SERVE: dict[str, Any] = {
    "date": "20261101-120000", "endpoint_type": "vllm", "backend": "vllm", "label": None,
    "model_id": "Qwen/Qwen3-32B-FP8", "tokenizer_id": "Qwen/Qwen3-32B-FP8", "num_prompts": 64, "request_rate": "inf",
    "burstiness": 1.0, "max_concurrency": 8, "duration": 100.0, "completed": 64, "failed": 0,
    "total_input_tokens": 65536, "total_output_tokens": 16384, "request_throughput": 0.64, "output_throughput": 163.8,
    "total_token_throughput": 819.2, "mean_ttft_ms": 512.5, "median_ttft_ms": 500.0, "std_ttft_ms": 20.0,
    "mean_tpot_ms": 40.0, "median_tpot_ms": 40.0, "std_tpot_ms": 1.0, "mean_itl_ms": 40.0, "tensor_parallel_size": "2",
}  # fmt: skip


def test_vllm_serve_gives_decode_and_first_token() -> None:
    """The mean time per output token of each stream and that of the first, at the requests' mean lengths."""
    runs = read_report(json.dumps(VLLM_SERVE)).runs
    assert [(run.figure.metric, run.figure.value) for run in runs] == [
        ("decode_tokens_per_s", 25.0),
        ("ttft_s", 0.5125),
    ]
    assert {(run.figure.prompt_tokens, run.figure.output_tokens, run.figure.parallel) for run in runs} == {
        (1024, 256, 8)
    }
    assert runs[0].setup.model.name == "Qwen/Qwen3-32B-FP8"
    assert runs[0].setup.flags.tensor_parallel_size == 2


def test_vllm_files_of_earlier_versions_and_other_benchmarks() -> None:
    """Without a limit every request runs at once; throughput and latency files lack lengths, and say so."""
    earlier = {key: value for key, value in VLLM_SERVE.items() if key not in ("max_concurrency", "failed")}
    assert {run.figure.parallel for run in read_report(json.dumps(earlier)).runs} == {64}
    throughput = {"elapsed_time": 10.0, "num_requests": 8, "total_num_tokens": 8192, "requests_per_second": 0.8,
                  "tokens_per_second": 819.2}  # fmt: skip
    (run,) = read_report(json.dumps(throughput)).runs
    assert (run.figure.metric, run.figure.prompt_tokens) == ("combined_tokens_per_s", None)
    latency = {"avg_latency": 3.0, "latencies": [3.0, 3.0], "percentiles": {"50": 3.0}}
    (unread,) = read_report(json.dumps(latency)).unread
    assert "vllm bench serve" in unread.reason
    (speculating,) = {
        run.setup.flags.speculates
        for run in read_report(json.dumps(VLLM_SERVE | {"spec_decode_acceptance_length": 2.5})).runs
    }
    assert speculating


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "n_prompt": st.just(0),
                "n_gen": st.integers(1, 4096),
                "n_depth": st.integers(0, 200_000),
                "avg_ts": st.floats(0.01, 1e5).map(lambda value: round(value, 2)),
                "flash_attn": st.sampled_from([0, 1]),
                "n_gpu_layers": st.integers(0, 200),
                "type_k": st.sampled_from(["f16", "q8_0", "q4_0"]),
            }
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(sorted(PRINTERS)),
)
def test_reading_is_the_inverse_of_printing(changes: list[dict[str, Any]], form: str) -> None:
    """Whatever is printed comes back, in every format."""
    rows = [row(**change) for change in changes]
    runs = read_report(PRINTERS[form](rows)).runs
    assert [run.figure.value for run in runs] == [each["avg_ts"] for each in rows]
    assert [run.figure.cached_tokens for run in runs] == [each["n_depth"] for each in rows]
    assert [run.setup.flags.flash_attn for run in runs] == [bool(each["flash_attn"]) for each in rows]
    assert [run.setup.flags.n_gpu_layers for run in runs] == [each["n_gpu_layers"] for each in rows]
    assert [run.setup.flags.cache_type_k for run in runs] == [each["type_k"] for each in rows]


@given(st.text(max_size=400))
def test_any_text_is_read_or_reported(text: str) -> None:
    """Nothing that can be pasted raises, and figures are only read where there are some."""
    report = read_report(text)
    assert len(report.runs) <= len(text)


@given(st.data())
def test_damaged_output_is_read_or_reported(data: st.DataObject) -> None:
    """A text cut and spliced anywhere never raises and never has more tests than it had."""
    whole = data.draw(st.sampled_from([PASTED, as_json(ROWS), as_csv(ROWS), as_sql(ROWS), as_jsonl(ROWS)]))
    first, last = sorted(data.draw(st.tuples(st.integers(0, len(whole)), st.integers(0, len(whole)))))
    report = read_report(whole[:first] + whole[last:])
    assert len(report.runs) <= 2


def test_several_objects_on_one_line() -> None:
    """Arrays without line breaks are read object by object."""
    report = read_report(json.dumps(as_objects(ROWS)))
    assert [run.figure.value for run in report.runs] == [4823.4, 140.04]
    assert replace(report.runs[0], line=0).setup == replace(report.runs[1], line=0).setup


def test_text_full_of_broken_json_is_read_on() -> None:
    """Where JSON breaks off again and again it is none, and a table behind it is still read."""
    report = read_report('{"a":\n' * 300 + as_csv(ROWS))
    assert len(report.runs) == 2
    assert len(report.unread) == 300
