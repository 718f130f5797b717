"""Comparisons: every combination, each with its figures or its problem, and the best of them."""

import csv
import io
from typing import Any

import pytest

from service.contract.compare import CompareRequest, Comparison
from service.contract.validation import validate_as
from service.core.problems import InvalidRequest, PlanProblem, UnknownEngine
from service.planning.compare import comparison_of, csv_of_comparison
from service.planning.compare.labels import rig_label
from service.planning.compare.questions import MAX_ROWS, questions_of
from service.planning.row import row_of_plan
from tests.planner import builtin_planner

BASE = {"model": "qwen3-32b:Q4_K_M", "workload": {"context_tokens": 16384}}
RIGS: list[Any] = ["2x rtx-3090", ["rtx-5090"], {"gpus": ["rtx-5090", {"gpu": "rtx-3090", "count": 2}]}]


def request_of(**fields: Any) -> CompareRequest:
    """A comparison."""
    return validate_as(CompareRequest, {"base": BASE, **fields})


def compare(**fields: Any) -> Comparison:
    """A comparison, answered."""
    return comparison_of(request_of(**fields), builtin_planner())


def test_every_combination_is_a_row() -> None:
    """Models, then rigs, then contexts, then engines, the last varying fastest."""
    table = compare(
        models=["qwen3-32b", "llama-3.1-8b"], quants=["Q4_K_M", "Q8_0"], rigs=RIGS, contexts=[4096, None],
        engines=[{}, {"flash_attn": False}],
    )  # fmt: skip
    assert table.varied == ["models", "quants", "rigs", "contexts", "engines"]
    assert len(table.rows) == 2 * 2 * 3 * 2 * 2
    assert [row.engine for row in table.rows[:2]] == ["llama.cpp", "llama.cpp flash_attn=False"]
    assert [row.context_tokens for row in table.rows[:4:2]] == [4096, None]
    assert [row.rig for row in table.rows[:12:4]] == ["2x rtx-3090", "rtx-5090", "rtx-5090 + 2x rtx-3090"]
    models = ["qwen3-32b:Q4_K_M", "qwen3-32b:Q8_0", "llama-3.1-8b:Q4_K_M", "llama-3.1-8b:Q8_0"]
    assert [row.model for row in table.rows[::12]] == models


def test_a_row_has_the_figures_of_its_own_question() -> None:
    """The question of a row, asked alone, gives the same figures; plans come where they are asked for."""
    table = compare(rigs=RIGS, plans=True)
    for row in table.rows:
        plan = builtin_planner().plan(row.request)
        assert row.figures == row_of_plan(plan)
        assert row.plan == plan
    assert all(row.plan is None for row in compare(rigs=RIGS).rows)


def test_a_row_without_an_answer_says_why_and_the_others_have_theirs() -> None:
    """An unknown quant or a mode the engine refuses is a problem of its row."""
    table = compare(quants=["Q9_Z", "Q4_K_M"], engines=[{}, {"split_mode": "row"}], rigs=["2x rtx-3090"])
    slugs = [None if row.problem is None else row.problem.type.rpartition("/")[2] for row in table.rows]
    assert slugs == ["unknown-model", "unknown-model", None, "unsupported"]
    assert table.rows[1].problem is not None
    assert table.rows[1].problem.instance == "/compare#/rows/1"
    assert [row.figures is None for row in table.rows] == [True, True, False, True]


def test_the_best_row_by_each_measure_is_of_those_that_run() -> None:
    """The fastest card decodes fastest, two cards have the longest context; what does not fit is none of them."""
    table = compare(rigs=["rtx-3060-12gb", "2x rtx-3090", "rtx-5090"], base=BASE | {"engine": {"n_gpu_layers": "all"}})
    assert table.rows[0].figures is not None
    assert table.rows[0].figures["verdict"] == "does_not_fit"
    best = {each.measure: each.row for each in table.best}
    assert (best["decode_tokens_per_s"], best["ttft_s"]) == (2, 2)
    assert 0 not in best.values()
    assert "aggregate_decode_tokens_per_s" not in best
    for each in table.best:
        assert each.value == (table.rows[each.row].figures or {})[each.measure]


def test_streams_together_are_compared_where_there_are_several() -> None:
    """With more than one stream the sum over them is a measure of its own."""
    base = {"model": "llama-3.1-8b", "workload": {"context_tokens": 16384, "parallel": 4}}
    measures = [each.measure for each in compare(base=base, rigs=["rtx-3090", "rtx-5090"]).best]
    assert "aggregate_decode_tokens_per_s" in measures


def test_a_difference_says_what_was_changed_and_by_how_much() -> None:
    """Each row but the first names the other rig, the ratio of the speeds and the reads behind it."""
    table = compare(rigs=["2x rtx-3090", "rtx-5090"])
    figures = [row.figures or {} for row in table.rows]
    ratio = float(figures[1]["decode_tokens_per_s"] or 0) / float(figures[0]["decode_tokens_per_s"] or 1)
    said = table.rows[1].difference or ""
    assert table.rows[0].difference is None
    assert said.startswith("rtx-5090 instead of 2x rtx-3090: ")
    assert f"decode {ratio:.2f} times as fast" in said
    assert "one card reading" in said


def test_cards_alone_stay_in_the_machine_of_the_base() -> None:
    """A rig given as names or cards keeps the base's host; a whole rig has its own."""
    base = BASE | {"rig": {"host": {"ram_bytes": 2**36}}}
    hosts = [question.rig.host.ram_bytes for question in questions_of(request_of(base=base, rigs=RIGS))]
    assert hosts == [2**36, 2**36, None]


def test_a_rig_is_called_by_its_cards() -> None:
    """Neighbours are counted, an own card is called by its name, no card at all is the host alone."""
    lab = {"gpu": {"name": "lab card", "vram_bytes": 2**34}, "count": 2}
    rigs: list[Any] = [["rtx-3090", "rtx-3090", "rtx-5090", lab], []]
    labels = [rig_label(question.rig) for question in questions_of(request_of(rigs=rigs))]
    assert labels == ["2x rtx-3090 + rtx-5090 + 2x lab card", "the host alone"]


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"base": {}}, InvalidRequest, "no model is named"),
        (
            {"contexts": list(range(1, 65)), "quants": ["Q4_K_M"] * 5},
            InvalidRequest,
            f"320 combinations and {MAX_ROWS}",
        ),
        ({"models": [{"url": "https://models.example/a.gguf"}], "quants": ["Q8_0"]}, InvalidRequest, "quants go with"),
        ({"contexts": []}, InvalidRequest, "/contexts"),
        ({"context": [4096]}, InvalidRequest, "did you mean contexts"),
        ({"rigs": [["rtx-3090"], 5]}, InvalidRequest, "/rigs/1"),
        ({"engines": [{"name": "ollama"}]}, UnknownEngine, "no engine named 'ollama'"),
        ({"engines": [{"n_batch": 0}]}, InvalidRequest, "/engines/0/n_batch"),
    ],
)
def test_what_cannot_be_compared_is_refused(fields: dict[str, Any], kind: type[PlanProblem], words: str) -> None:
    """No model, too many rows, quants of a file, an empty or unknown part: one problem that names it."""
    with pytest.raises(kind, match=words):
        compare(**fields)


def test_the_table_as_csv_has_a_line_per_row() -> None:
    """What was asked, the figures and the problem, in the order of the rows."""
    table = compare(quants=["Q4_K_M", "Q9_Z"])
    lines = list(csv.DictReader(io.StringIO(csv_of_comparison(table))))
    assert [line["asked_model"] for line in lines] == ["qwen3-32b:Q4_K_M", "qwen3-32b:Q9_Z"]
    assert (lines[0]["verdict"], lines[0]["problem"]) == ("fits", "")
    assert "no quant" in lines[1]["problem"]


def test_each_engine_gets_the_model_in_a_format_it_has() -> None:
    """One name, both engines: a GGUF quant and the format of vLLM that is about as large, with their figures."""
    table = compare(rigs=["2x rtx-3090"], engines=[{"name": "llama.cpp"}, {"name": "vllm"}])
    assert [row.model for row in table.rows] == ["qwen3-32b:Q4_K_M", "qwen3-32b:AWQ"]
    assert [row.problem for row in table.rows] == [None, None]
    assert "vllm instead of llama.cpp" in (table.rows[1].difference or "")
    assert {best.measure for best in table.best} >= {"decode_tokens_per_s", "max_context_tokens"}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("qwen3-32b:Q8_0", ["qwen3-32b:Q8_0", "qwen3-32b:FP8"]),
        ("qwen3-32b:F16", ["qwen3-32b:F16", "qwen3-32b:BF16"]),
        ("qwen3-32b:FP8", ["qwen3-32b:Q8_0", "qwen3-32b:FP8"]),
        ("qwen3-32b:NVFP4", ["qwen3-32b:Q4_K_M", "qwen3-32b:NVFP4"]),
        ("gpt-oss-20b:MXFP4", ["gpt-oss-20b:MXFP4", "gpt-oss-20b:MXFP4"]),
        ("gpt-oss-20b:Q4_K_M", ["gpt-oss-20b:Q4_K_M", "gpt-oss-20b:MXFP4"]),
        ("qwen3-32b", ["qwen3-32b", "qwen3-32b"]),
        ("sha256:00", ["sha256:00", "sha256:00"]),
    ],
)
def test_formats_of_a_comparison(model: str, expected: list[str]) -> None:
    """By their bits, either way; what names no quant stays as it is."""
    request = request_of(models=[model], engines=[{"name": "llama.cpp"}, {"name": "vllm"}])
    assert [question.model for question in questions_of(request)] == expected


def test_one_engine_keeps_the_name_as_it_is() -> None:
    """Nothing is read into a name where engines do not differ."""
    (question,) = questions_of(request_of(engines=[{"name": "vllm"}]))
    assert question.model == "qwen3-32b:Q4_K_M"
