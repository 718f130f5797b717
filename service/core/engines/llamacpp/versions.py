"""Which of llama.cpp's rules held when: merged changes that alter an answer, by date or build."""

import re
from bisect import bisect_right
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, Literal

from service.core.problems import InvalidRequest

Rule = Literal[
    "pipeline_parallel",
    "output_rows_of_sequences",
    "cache_padded_for_kernels",
    "cache_padded_less_without_flash_attn",
    "latent_cache",
    "windowed_cache",
    "separate_streams",
    "n_cpu_moe",
    "flash_attn_auto",
    "unpadded_cache",
    "server_default_slots",
    "padded_context",
    "vulkan_reorders",
    "fit_by_default",
    "fit_targets_per_device",
    "tensor_split_mode",
    "drafts_read_all_rows",
    "f16_masks",
    "logits_rows_of_streams",
    "attention_scratch_in_graph",
    "no_row_split_on_cuda",
    "kv_unified_per_slot",
    "metal_attention_scratch",
    "fused_sources_kept",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A rule that holds since a date, and the pull requests of ggml-org/llama.cpp that made it so."""

    rule: Rule
    since: date
    pull_requests: tuple[int, ...]
    what: str


CHANGES: Final = (
    Change(
        rule="pipeline_parallel",
        since=date(2024, 3, 1),
        pull_requests=(6017,),
        what="several GPUs work on one batch in n_ubatch pieces, with four copies of every graph input",
    ),
    Change(
        rule="output_rows_of_sequences",
        since=date(2024, 3, 1),
        pull_requests=(6122,),
        what="the host's output buffer has n_seq_max rows",
    ),
    Change(
        rule="cache_padded_for_kernels",
        since=date(2024, 4, 3),
        pull_requests=(6438,),
        what="the context is padded to 256 instead of 32 tokens",
    ),
    Change(
        rule="cache_padded_less_without_flash_attn",
        since=date(2024, 5, 14),
        pull_requests=(7257,),
        what="without flash attention the context is padded to 32 tokens again",
    ),
    Change(
        rule="latent_cache",
        since=date(2025, 4, 1),
        pull_requests=(12801,),
        what="latent attention caches K only",
    ),
    Change(
        rule="windowed_cache",
        since=date(2025, 5, 1),
        pull_requests=(13194,),
        what="sliding-window layers have a cache of their own, as short as the window",
    ),
    Change(
        rule="separate_streams",
        since=date(2025, 7, 16),
        pull_requests=(14363,),
        what="sequences may own separate parts of the cache",
    ),
    Change(
        rule="n_cpu_moe",
        since=date(2025, 8, 1),
        pull_requests=(15077,),
        what="--cpu-moe and --n-cpu-moe",
    ),
    Change(
        rule="flash_attn_auto",
        since=date(2025, 8, 30),
        pull_requests=(15434,),
        what="flash attention is on wherever the backend has it, without asking",
    ),
    Change(
        rule="unpadded_cache",
        since=date(2025, 10, 28),
        pull_requests=(16812,),
        what="the context is not padded",
    ),
    Change(
        rule="server_default_slots",
        since=date(2025, 11, 1),
        pull_requests=(16736, 17997),
        what="llama-server without -np starts four slots on one cache",
    ),
    Change(
        rule="padded_context",
        since=date(2025, 11, 7),
        pull_requests=(17046,),
        what="the context is padded to 256 tokens, and sliding-window caches always are",
    ),
    Change(
        rule="vulkan_reorders",
        since=date(2025, 11, 25),
        pull_requests=(15850, 17475),
        what="Vulkan computes the nodes of a graph in an order of its own, for prompts as well",
    ),
    Change(
        rule="fit_by_default",
        since=date(2025, 12, 1),
        pull_requests=(16653, 18070),
        what="--fit changes what the user left open until it fits",
    ),
    Change(
        rule="fit_targets_per_device",
        since=date(2026, 1, 1),
        pull_requests=(18679,),
        what="--fit-target takes one margin per device",
    ),
    Change(
        rule="tensor_split_mode",
        since=date(2026, 4, 1),
        pull_requests=(19378, 22299, 22171),
        what="-sm tensor",
    ),
    Change(
        rule="drafts_read_all_rows",
        since=date(2026, 5, 15),
        pull_requests=(22673, 25589),
        what="Qwen3-Next, 3.5 and 3.6 compute all rows of their last block, which a draft may read",
    ),
    Change(
        rule="f16_masks",
        since=date(2026, 5, 28),
        pull_requests=(23764,),
        what="masks of fused attention are F16 inputs, no longer F32 inputs that every device converts",
    ),
    Change(
        rule="logits_rows_of_streams",
        since=date(2026, 6, 1),
        pull_requests=(23861,),
        what="llama-server reserves logits for its streams instead of a whole batch",
    ),
    Change(
        rule="attention_scratch_in_graph",
        since=date(2026, 6, 4),
        pull_requests=(23907,),
        what="CUDA's F16 copies of a quantised cache are part of the compute buffer",
    ),
    Change(
        rule="kv_unified_per_slot",
        since=date(2026, 7, 1),
        pull_requests=(24124,),
        what="--kv-unified-per-slot",
    ),
    Change(
        rule="no_row_split_on_cuda",
        since=date(2026, 7, 6),
        pull_requests=(24216,),
        what="-sm row is gone from CUDA and HIP",
    ),
    Change(
        rule="metal_attention_scratch",
        since=date(2026, 8, 20),
        pull_requests=(27390, 27438),
        what="Metal reserves F16 copies of the cache in the compute buffer",
    ),
    Change(
        rule="fused_sources_kept",
        since=date(2026, 9, 5),
        pull_requests=(27301, 25952, 28422, 28948),
        what="GPU backends keep what fused operations read, which makes compute buffers of mixtures of experts larger",
    ),
)
"""Changes in the order they were merged; the day is the first of the month where only the month is known.

Source: pull requests of ggml-org/llama.cpp as numbered; those of 2024 and 6438, 7257, 14363, 16812 and 17046 with the
day their discussion gives.
"""

BUILD_DATES: Final = (
    (2824, date(2024, 5, 9)),
    (5237, date(2025, 5, 4)),
    (5922, date(2025, 7, 18)),
    (6895, date(2025, 10, 31)),
    (7079, date(2025, 11, 16)),
    (7423, date(2025, 12, 15)),
    (7948, date(2026, 2, 5)),
    (8763, date(2026, 4, 12)),
    (8829, date(2026, 4, 18)),
    (9272, date(2026, 5, 25)),
    (10621, date(2026, 8, 15)),
)
"""Builds whose date is known, for interpolation; beyond the ends the nearest segment's rate goes on.

Source: release logs of ggml-org/llama.cpp as quoted in public benchmark logs; only the month is known of b2824, b7423,
b7948 and b10621.
"""

GGUF_SINCE: Final = date(2023, 8, 21)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRules:
    """The rules of one llama.cpp; `as_of` is its date, None for the newest known."""

    as_of: date | None = None

    def has(self, rule: Rule) -> bool:
        """Whether the rule held."""
        return self.as_of is None or self.as_of >= _SINCE[rule]


_SINCE: Final = {change.rule: change.since for change in CHANGES}
NEWEST: Final = VersionRules()


def build_date(build: int) -> date:
    """Date of a build number, by linear interpolation of builds whose date is known."""
    numbers = [number for number, _ in BUILD_DATES]
    right = min(max(bisect_right(numbers, build), 1), len(numbers) - 1)
    (low, low_day), (high, high_day) = BUILD_DATES[right - 1], BUILD_DATES[right]
    days = (high_day - low_day).days * (build - low) / (high - low)
    return low_day + timedelta(days=round(days))


@lru_cache(maxsize=1024)
def version_rules(version: str | None, as_of: str | None) -> VersionRules:
    """Rules of the build `version` ("b8829") or, without one, of the date `as_of` ("YYYY-MM" or "YYYY-MM-DD").

    A month stands for its last day. Neither given means the newest known.
    Raises `InvalidRequest` for what is neither a build nor a date, or lies before GGUF files.
    """
    if version is not None:
        return VersionRules(as_of=_checked(build_date(_build(version)), "engine.version", version))
    if as_of is not None:
        return VersionRules(as_of=_checked(_day(as_of), "engine.date", as_of))
    return NEWEST


def _build(version: str) -> int:
    match = re.fullmatch(r"b(\d{1,6})(?:[ -].*)?", version.strip())
    if match is None:
        raise InvalidRequest(
            f"llama.cpp version {version!r} is not a build: write it like b8829, or give engine.date as YYYY-MM",
            fields=("engine.version",),
        )
    return int(match[1])


def _day(text: str) -> date:
    match = re.fullmatch(r"(\d{4})-(\d{2})(?:-(\d{2}))?", text.strip())
    if match is not None and int(match[1]) >= 1 and 1 <= int(match[2]) <= 12:
        year, month = int(match[1]), int(match[2])
        last_day = monthrange(year, month)[1]
        day = last_day if match[3] is None else int(match[3])
        if 1 <= day <= last_day:
            return date(year, month, day)
    raise InvalidRequest(f"date {text!r} is not a date: write it as YYYY-MM or YYYY-MM-DD", fields=("engine.date",))


def _checked(day: date, field: str, stated: str) -> date:
    if day < GGUF_SINCE:
        raise InvalidRequest(
            f"{stated!r} is before llama.cpp read GGUF files (August 2023): name a later build or date", fields=(field,)
        )
    return day
