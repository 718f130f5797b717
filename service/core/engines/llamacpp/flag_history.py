"""Since when llama.cpp's programs are called what they are and take the words that commands use."""

from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import VersionRules
from service.core.problems import Unsupported

Spelling = Literal[
    "cache_types",
    "physical_batch",
    "flash_attn",
    "llama_server",
    "override_tensor",
    "bench_override_tensor",
    "bench_depth",
    "bench_n_cpu_moe",
    "layers_in_words",
    "peer_access_opt_in",
    "bench_flash_attn_words",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpellingChange:
    """A word that is understood since a day, and the pull request of ggml-org/llama.cpp that made it so."""

    spelling: Spelling
    since: date
    pull_request: int | None
    what: str


SPELLING_CHANGES: Final = (
    SpellingChange(spelling="cache_types", since=date(2023, 12, 7), pull_request=4309, what="-ctk, -ctv and -nkvo"),
    SpellingChange(
        spelling="physical_batch",
        since=date(2024, 3, 14),
        pull_request=6017,
        what="-ub; before, -b is the physical batch and 512 unless said otherwise",
    ),
    SpellingChange(spelling="flash_attn", since=date(2024, 4, 30), pull_request=5021, what="-fa, a switch"),
    SpellingChange(
        spelling="llama_server",
        since=date(2024, 6, 13),
        pull_request=7809,
        what="the server is no longer called server",
    ),
    SpellingChange(spelling="override_tensor", since=date(2025, 4, 2), pull_request=11397, what="-ot of the server"),
    SpellingChange(
        spelling="bench_override_tensor", since=date(2025, 4, 27), pull_request=12922, what="-ot of llama-bench"
    ),
    SpellingChange(spelling="bench_depth", since=date(2025, 4, 28), pull_request=13096, what="-d of llama-bench"),
    SpellingChange(
        spelling="bench_n_cpu_moe", since=date(2025, 9, 16), pull_request=15952, what="-ncmoe of llama-bench"
    ),
    SpellingChange(
        spelling="layers_in_words",
        since=date(2026, 4, 12),
        pull_request=None,
        what="-ngl all, at the latest: builds of that day print it in their help; all of them take a number",
    ),
    SpellingChange(
        spelling="peer_access_opt_in",
        since=date(2026, 4, 15),
        pull_request=21910,
        what="CUDA devices copy to each other directly only with GGML_CUDA_P2P, before wherever the driver allows it",
    ),
    SpellingChange(
        spelling="bench_flash_attn_words",
        since=date(2026, 5, 29),
        pull_request=23714,
        what="llama-bench -fa takes words and is auto, -ngl is all; before -fa took 0 or 1, was 0, and -ngl 99",
    ),
)
"""Words in the order they came; days are those of the pull requests' discussions, at most a few off.

Source: pull requests of ggml-org/llama.cpp as numbered; layers_in_words: the help of a build of that day as quoted by
github.com/AlexsJones/llmfit/pull/431.
"""

UNKNOWN_CACHE_TYPES: Final = frozenset({"f32"})
"""Types of a cache that llama-bench does not read, and the server does (llama-bench.cpp:496-523)."""

_SINCE: Final = {change.spelling: change.since for change in SPELLING_CHANGES}


def knows(rules: VersionRules, spelling: Spelling) -> bool:
    """Whether programs of that time know it."""
    return rules.as_of is None or rules.as_of >= _SINCE[spelling]


def check_spelled(settings: LlamaCppSettings, rules: VersionRules) -> None:
    """Refuse what a user fixed and what no flag of that time says.

    Raises Unsupported. Source: SPELLING_CHANGES.
    """
    if settings.tool == "llama-bench":
        _check_bench(settings)
    if rules.as_of is None or rules.as_of >= _NEWEST_REFUSAL:
        return
    quantised = {settings.cache_type_k, settings.cache_type_v} - {None, "f16"}
    wanted: tuple[tuple[bool, Spelling, str], ...] = (
        (bool(quantised), "cache_types", "cache_type_k"),
        (settings.flash_attn is True, "flash_attn", "flash_attn"),
        (bool(settings.override_tensor), "override_tensor", "override_tensor"),
    )
    for asked, spelling, field in wanted:
        if asked and not knows(rules, spelling):
            raise Unsupported(
                f"llama.cpp of {rules.as_of} has no flag for {field}, which came on {_SINCE[spelling]}: leave it open, "
                "or name a later build or date",
                fields=(f"engine.{field}", "engine.version", "engine.date"),
            )


_NEWEST_REFUSAL: Final = _SINCE["override_tensor"]


def _check_bench(settings: LlamaCppSettings) -> None:
    for field, cache_type in (("cache_type_k", settings.cache_type_k), ("cache_type_v", settings.cache_type_v)):
        if cache_type in UNKNOWN_CACHE_TYPES:
            raise Unsupported(
                f"llama-bench has no cache of type {cache_type}: choose another type, or llama-server as the tool",
                fields=(f"engine.{field}", "engine.tool"),
            )
