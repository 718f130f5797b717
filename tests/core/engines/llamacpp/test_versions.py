"""Which rules held when."""

from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.llamacpp.versions import BUILD_DATES, CHANGES, NEWEST, Rule, build_date, version_rules
from service.core.problems import InvalidRequest


@pytest.mark.parametrize(
    ("version", "as_of", "rule", "holds"),
    [
        (None, None, "no_row_split_on_cuda", True),
        (None, "2026-06", "no_row_split_on_cuda", False),
        (None, "2026-07", "no_row_split_on_cuda", True),
        (None, "2026-07-05", "no_row_split_on_cuda", False),
        (None, "2026-07-06", "no_row_split_on_cuda", True),
        ("b8829", None, "logits_rows_of_streams", False),
        ("b9272", None, "logits_rows_of_streams", False),
        ("b9700", None, "logits_rows_of_streams", True),
        ("b8829 (6990e2f1f)", None, "tensor_split_mode", True),
        ("b5237", None, "windowed_cache", True),
        ("b5200", None, "windowed_cache", False),
        ("b5237", None, "flash_attn_auto", False),
        ("b7079", None, "padded_context", True),
        ("b2824", None, "pipeline_parallel", True),
        (None, "2024-02", "pipeline_parallel", False),
        (None, "2025-03", "latent_cache", False),
        (None, "2025-04", "latent_cache", True),
        (None, "2025-07", "n_cpu_moe", False),
        (None, "2025-08", "n_cpu_moe", True),
        (None, "2025-10", "server_default_slots", False),
        (None, "2025-11", "server_default_slots", True),
        (None, "2025-12", "fit_by_default", True),
        (None, "2026-07", "kv_unified_per_slot", True),
    ],
)
def test_rules_by_build_and_date(version: str | None, as_of: str | None, rule: Rule, holds: bool) -> None:
    """A build is placed by its date; a month stands for its last day; nothing means the newest."""
    assert version_rules(version, as_of).has(rule) is holds


def test_newest_has_every_rule() -> None:
    """Without a version or a date every change is in."""
    assert all(NEWEST.has(change.rule) for change in CHANGES)
    assert version_rules(None, None) is NEWEST


def test_build_wins_over_date() -> None:
    """A build number is the more exact statement."""
    assert version_rules("b5237", "2026-07") == version_rules("b5237", None)


def test_changes_are_in_order_and_sourced() -> None:
    """Sorted by date, each rule once, each with its pull requests."""
    assert [change.since for change in CHANGES] == sorted(change.since for change in CHANGES)
    assert len({change.rule for change in CHANGES}) == len(CHANGES)
    assert all(change.pull_requests for change in CHANGES)


def test_known_builds_have_their_dates() -> None:
    """Interpolation passes through every known build."""
    assert all(build_date(build) == day for build, day in BUILD_DATES)
    assert all(earlier < later for earlier, later in pairwise(BUILD_DATES))


@given(st.lists(st.integers(1500, 15000), min_size=2, max_size=2))
def test_later_builds_are_never_dated_earlier(builds: list[int]) -> None:
    """Dates grow with build numbers."""
    earlier, later = sorted(builds)
    assert build_date(earlier) <= build_date(later)


@given(st.dates(date(2023, 9, 1), date(2030, 1, 1)), st.dates(date(2023, 9, 1), date(2030, 1, 1)))
def test_rules_never_end(one: date, other: date) -> None:
    """A later llama.cpp has every rule that an earlier one had."""
    earlier, later = sorted((one, other))
    for change in CHANGES:
        assert version_rules(None, f"{earlier}").has(change.rule) <= version_rules(None, f"{later}").has(change.rule)


@pytest.mark.parametrize(
    ("version", "as_of", "field"),
    [
        ("8829", None, "engine.version"),
        ("b", None, "engine.version"),
        ("0.33.0", None, "engine.version"),
        ("latest", None, "engine.version"),
        ("b99999999", None, "engine.version"),
        ("b1", None, "engine.version"),
        (None, "2026", "engine.date"),
        (None, "2026-13", "engine.date"),
        (None, "2026-02-30", "engine.date"),
        (None, "0000-01", "engine.date"),
        (None, "9999-12", None),
        (None, "yesterday", "engine.date"),
        (None, "2022-01", "engine.date"),
    ],
)
def test_what_is_neither_build_nor_date_is_refused(version: str | None, as_of: str | None, field: str | None) -> None:
    """Unreadable versions name their field and the form to write; any later date is the newest."""
    if field is None:
        assert version_rules(version, as_of).has("kv_unified_per_slot")
        return
    with pytest.raises(InvalidRequest) as problem:
        version_rules(version, as_of)
    assert problem.value.fields == (field,)
