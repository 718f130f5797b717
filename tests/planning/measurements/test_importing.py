"""Benchmarks are matched to catalogue entries, judged, and kept once."""

import json
from typing import Any

import pytest

from service.core.problems import InvalidRequest, UnknownGpu, UnknownModel
from tests.measurements.printed import LAYOUTS, OBSERVED, as_csv, as_json, as_jsonl, as_markdown, as_sql, row
from tests.measurements.test_reading import VLLM_SERVE
from tests.planning.measurements.conftest import Measuring

PRINTERS = {"csv": as_csv, "json": as_json, "jsonl": as_jsonl, "sql": as_sql}
RTX_3090, RTX_4090, RX_7900 = "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090", "AMD Radeon RX 7900 XTX"
QWEN_32B = {"model_type": "qwen2 32B Q4_K - Medium", "model_size": 19_845_357_568, "model_n_params": 32_763_876_352}


def codes(measuring: Measuring, *rows: Any, **hints: object) -> list[str]:
    """What became of every row, "" for what is accepted and counts."""
    return [one.code for one in measuring.bring(as_json(rows), **hints).measurements]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", PRINTERS)
def test_every_layout_is_matched(layout: str, form: str, measuring: Measuring) -> None:
    """Card, model, build and flags are found in what every version printed in every format."""
    found = measuring.bring(PRINTERS[form]([row(n_prompt=512, n_gen=0, avg_ts=4500.0, stddev_ts=9.0), row()], layout))
    assert (found.accepted, found.quarantined, found.unread) == (2, 0, [])
    for one in found.measurements:
        assert one.model is not None
        assert one.model.endswith("8b:Q4_K_M")
        assert (one.rig, one.backend, one.build) == ("rtx-3090", "cuda", "b8829")
        assert one.request is not None
        assert one.request["engine"]["flash_attn"] is False
        assert one.request["engine"]["n_gpu_layers"] == 99
    prefill, decode = (one.request["workload"] for one in found.measurements if one.request)
    assert (prefill["prompt_tokens"], prefill["cached_tokens"]) == (512, 0)
    assert (decode["prompt_tokens"], decode["output_tokens"]) == (1, 128)


def test_a_table_needs_its_cards_from_around_it(measuring: Measuring) -> None:
    """A table alone does not say which card it was: it waits for the caller's word or the log's."""
    table = as_markdown([row()], "ngl")
    assert [one.code for one in measuring.bring(table).measurements] == ["unknown-gpu"]
    assert measuring.bring(table, gpu=["rtx-3090"]).accepted == 1
    log = "  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes\n"
    assert measuring.bring(log + table).accepted == 1


@pytest.mark.parametrize("name", sorted(path.name for path in OBSERVED.iterdir()))
def test_observed_files_of_a_model_that_nobody_has(name: str, measuring: Measuring) -> None:
    """A tiny test model is in no catalogue: its figures are kept apart, with the reason."""
    found = measuring.bring((OBSERVED / name).read_text("utf-8"))
    assert found.accepted == 0
    assert {one.code for one in found.measurements} <= {"unknown-model", "unsteady"}


def test_the_same_text_again_changes_nothing(measuring_anywhere: Measuring) -> None:
    """Ids are digests of what was read, so nothing is counted twice."""
    first, second = (measuring_anywhere.bring(as_json([row(), row(n_gen=256)])) for _ in range(2))
    assert (first.known, second.known) == (0, 2)
    assert [one.id for one in first.measurements] == [one.id for one in second.measurements]
    assert measuring_anywhere.planner.calibration().count == 2


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"avg_ts": 0.0}, "not-a-rate"),
        ({"avg_ts": float("nan")}, "not-a-rate"),
        ({"avg_ts": -3.0}, "not-a-rate"),
        ({"stddev_ts": 40.0}, "unsteady"),
        ({"avg_ts": 300.0}, "beyond-bandwidth"),
        ({"avg_ts": 9.0, "stddev_ts": 0.1}, "implausibly-slow"),
        ({"n_prompt": 512, "n_gen": 0, "avg_ts": 90_000.0}, "beyond-compute"),
        ({"gpu_info": "NVIDIA GeForce RTX 9999"}, "unknown-gpu"),
        ({"gpu_info": "Apple M3 Max", "backends": "MTL,BLAS"}, "unknown-gpu"),
        ({"gpu_info": "NVIDIA GeForce RTX 3090", "backends": "CANN"}, "unsupported-backend"),
        ({"gpu_info": "AMD Radeon RX 7900 XTX", "backends": "SYCL"}, "unsupported-backend"),
        ({"backends": "CUDA,Vulkan"}, "ambiguous-backend"),
        ({"model_size": 4_000_000_000}, "unknown-model"),
        ({"model_n_params": 9_030_261_312}, "unknown-model"),
        ({"gpu_info": "NVIDIA GeForce RTX 3070", "n_depth": 120_000, "avg_ts": 20.0}, "does-not-fit"),
        ({"n_prompt": 512, "n_gen": 128, "avg_ts": 700.0}, "not-predicted"),
    ],
)
def test_what_cannot_be_believed_is_kept_apart(changes: dict[str, Any], code: str, measuring: Measuring) -> None:
    """Impossible, unsteady and unknown figures have their reason and change no prediction."""
    (one,) = measuring.bring(as_json([row(**changes)])).measurements
    assert one.code == code
    assert one.reason
    assert one.status == ("accepted" if code == "not-predicted" else "quarantined")
    assert measuring.planner.calibration().count == 0


def test_a_contradicting_measurement_is_kept_apart(measuring_anywhere: Measuring) -> None:
    """Repeated within the noise it counts; 10 % off on the same machine and build it does not, on another it does."""
    assert codes(measuring_anywhere, row()) == [""]
    assert codes(measuring_anywhere, row(avg_ts=140.9, test_time="2026-04-20T12:00:00Z")) == [""]
    assert codes(measuring_anywhere, row(avg_ts=126.0, stddev_ts=0.2)) == ["contradicts"]
    assert codes(measuring_anywhere, row(avg_ts=126.0, stddev_ts=0.2, cpu_info="AMD EPYC 7402")) == [""]
    assert codes(measuring_anywhere, row(avg_ts=60.0, stddev_ts=0.2, cpu_info="AMD EPYC 7402P")) == ["contradicts"]


def test_models_of_the_same_weights_are_one(measuring: Measuring) -> None:
    """Qwen2.5 32B and its coder run the same computation: the measurement stands for both, and says so."""
    (one,) = measuring.bring(as_json([row(**QWEN_32B, avg_ts=38.0)])).measurements
    assert one.status == "accepted"
    assert any("same computation" in note for note in one.notes)


def test_weights_that_nearly_agree_are_taken_with_a_note(measuring: Measuring) -> None:
    """Another uploader's mix differs by a few tensors; by more than that, the model must be named."""
    nearly, further = 4_940_000_000, 5_030_000_000
    (one,) = measuring.bring(as_json([row(model_size=nearly)])).measurements
    assert one.status == "accepted"
    assert any("differ by" in note for note in one.notes)
    (other,) = measuring.bring(as_json([row(model_size=further)])).measurements
    assert other.code == "unknown-model"
    assert any("8b" in candidate for candidate in other.candidates)
    (named,) = measuring.bring(as_json([row(model_size=further)]), model="llama-3.1-8b").measurements
    assert (named.status, named.model) == ("accepted", "llama-3.1-8b:Q4_K_M")


def test_weights_of_two_mixes_wait_for_their_name(measuring: Measuring) -> None:
    """BF16 and F16 take as many bytes: a guessed type cannot tell them, the file's name or the loader's count can."""
    guessed = {"model_type": "llama 8B (guessed) F16", "model_size": 16_061_055_232, "avg_ts": 50.0}
    (one,) = measuring.bring(as_json([row(**guessed, model_filename="model.gguf")])).measurements
    assert one.code == "ambiguous-model"
    assert {candidate.partition(":")[2] for candidate in one.candidates} == {"F16", "BF16"}
    (called,) = measuring.bring(as_json([row(**guessed, model_filename="Llama-3.1-8B-BF16.gguf")])).measurements
    assert (called.status, called.model) == ("accepted", "llama-3.1-8b:BF16")
    (named,) = measuring.bring(as_json([row(**guessed, n_gen=64)]), model="llama-3.1-8b:F16").measurements
    assert (named.status, named.model) == ("accepted", "llama-3.1-8b:F16")


def test_a_loaders_log_says_what_batched_bench_ran(measuring: Measuring) -> None:
    """llama-batched-bench names neither card nor model: the log around it, or the caller, does."""
    line = '{"n_kv_max": 4096, "n_batch": 2048, "n_ubatch": 512, "flash_attn": 1, "is_pp_shared": 0, '
    line += '"n_gpu_layers": 99, "pp": 512, "tg": 128, "pl": 4, "speed_pp": 4500.0, "speed_tg": 380.0}\n'
    log = (
        "  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes\n"
        "llama_model_loader: loaded meta data with 29 key-value pairs and 292 tensors from m.gguf\n"
        "llama_model_loader: - type  f32:   66 tensors\n"
        "llama_model_loader: - type q4_K:  193 tensors\n"
        "llama_model_loader: - type q6_K:   33 tensors\n"
        "print_info: arch             = llama\n"
        "print_info: model type       = 8B\n"
        "print_info: file type   = Q4_K - Medium\n"
        "print_info: file size   = 4.58 GiB (4.89 BPW)\n"
        "print_info: model params     = 8.03 B\n"
    )
    for found in (measuring.bring(log + line), measuring.bring(line, model="llama-3.1-8b", gpu=["rtx-3090"])):
        assert found.unread == []
        together, decoding = found.measurements
        assert (together.code, decoding.code) == ("not-predicted", "")
        assert decoding.metric == "aggregate_decode_tokens_per_s"
        assert decoding.request is not None
        assert decoding.request["workload"]["parallel"] == 4


def test_vllm_files_name_their_model_and_wait_for_their_cards(measuring: Measuring) -> None:
    """The model comes by its repository's name in the format behind it; cards and speculation are the caller's word."""
    served = json.dumps(VLLM_SERVE)
    assert {one.code for one in measuring.bring(served).measurements} == {"unknown-gpu"}
    decoding, first = measuring.bring(served, gpu=["2x rtx-5090"]).measurements
    assert (decoding.status, decoding.model, decoding.rig) == ("accepted", "qwen3-32b:FP8", "2x rtx-5090")
    assert first.status == "accepted"
    (group,) = measuring.planner.calibration().groups
    assert group.group == "vllm cuda tensor batch"
    nobody = json.dumps(VLLM_SERVE | {"model_id": "owner/nobody-knows"})
    assert {one.code for one in measuring.bring(nobody, gpu=["2x rtx-5090"]).measurements} == {"unknown-model"}
    speculating = json.dumps(VLLM_SERVE | {"spec_decode_acceptance_length": 2.5})
    assert {one.code for one in measuring.bring(speculating, gpu=["2x rtx-5090"]).measurements} == {"not-predicted"}


def test_hints_must_not_contradict_what_was_printed(measuring: Measuring) -> None:
    """A wrong card or model is refused instead of believed."""
    assert codes(measuring, row(), gpu=["rtx-4090"]) == ["rig-contradicted"]
    assert codes(measuring, row(), model="llama-3.3-70b:Q4_K_M") == ["model-contradicted"]
    assert codes(measuring, row(), gpu=["2x rtx-3090"]) == ["rig-contradicted"]
    with pytest.raises(UnknownGpu):
        measuring.bring(as_json([row(gpu_info="")]) + as_markdown([row()]), gpu=["rtx-nothing"])
    with pytest.raises(UnknownModel):
        measuring.bring(as_json([row()]), model="nothing:Q4_K_M")


@pytest.mark.parametrize(
    ("changes", "hints", "rig", "backend"),
    [
        ({"gpu_info": f"{RTX_3090}/{RTX_3090}"}, {}, "2x rtx-3090", "cuda"),
        ({"gpu_info": f"{RTX_3090}, {RTX_4090}", "avg_ts": 120.0}, {}, "rtx-3090, rtx-4090", "cuda"),
        ({"gpu_info": f"{RTX_3090}, {RTX_4090}", "split_mode": "none"}, {}, "rtx-3090", "cuda"),
        ({"gpu_info": f"{RTX_4090}, {RTX_3090}", "devices": "CUDA1"}, {}, "rtx-3090", "cuda"),
        ({"gpu_info": RX_7900, "backends": "ROCm", "avg_ts": 100.0}, {}, "rx-7900-xtx", "rocm"),
        ({"gpu_info": f"{RX_7900} (RADV NAVI31)", "backends": "Vulkan"}, {}, "rx-7900-xtx", "vulkan"),
        ({"gpu_info": "192.168.1.2:50052", "backends": "RPC"}, {"gpu": ["rtx-3090"]}, "rtx-3090", "rpc"),
        (
            {"gpu_info": "", "backends": "CPU", "n_gpu_layers": 0, "avg_ts": 9.0, "stddev_ts": 0.1},
            {}, "AMD Ryzen 9 7950X 16-Core Processor", "cpu",
        ),
        ({"backends": "CUDA,Vulkan"}, {"backend": "vulkan"}, "rtx-3090", "vulkan"),
    ],
)  # fmt: skip
def test_rigs_of_every_kind(
    changes: dict[str, Any], hints: dict[str, object], rig: str, backend: str, measuring: Measuring
) -> None:
    """Several cards, chosen ones, other backends, servers and processors are found as drivers call them."""
    (one,) = measuring.bring(as_json([row(**changes)]), **hints).measurements
    assert (one.status, one.reason) == ("accepted", "")
    assert (one.rig, one.backend) == (rig, backend)


def test_early_builds_for_rocm_called_it_cuda(measuring: Measuring) -> None:
    """Where the only backend of an AMD card's build is CUDA, it was ROCm by its old name."""
    changes = {"gpu_info": "AMD Radeon RX 7900 XTX", "build_number": 3000, "avg_ts": 95.0}
    (one,) = measuring.bring(as_csv([row(**changes)], "2024-05")).measurements
    assert (one.status, one.backend, one.build) == ("accepted", "rocm", "b3000")


def test_a_build_without_history_is_dated_by_its_test(measuring: Measuring) -> None:
    """Shallow clones count from 1: then the day of the test says how old the build can be."""
    (one,) = measuring.bring(as_json([row(build_number=1)])).measurements
    assert one.build == "2026-04-19"
    assert any("day of the test" in note for note in one.notes)


def test_of_many_unread_lines_the_first_are_shown(measuring: Measuring) -> None:
    """A long log does not come back whole: its lines are counted."""
    found = measuring.bring("once upon a time\n" * 500 + as_csv([row()]))
    assert (found.accepted, len(found.unread), found.unread_count) == (1, 200, 500)


def test_a_text_without_figures_is_refused(measuring: Measuring) -> None:
    """Nothing read is a problem, not an empty success."""
    for text in ("", "hello", '{"a": 1}'):
        with pytest.raises(InvalidRequest, match="llama-bench"):
            measuring.bring(text)
