"""Which rules a release of vLLM follows; the newest where nothing is stated.

Source: comparison of 0.8.5.post1, 0.11.0, 0.19.1 and 0.33.0, and the release notes between them.
"""

import re
from dataclasses import dataclass

from service.core.problems import InvalidRequest

NEWEST = (0, 33, 0)
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[.\w+-]*)", re.ASCII)
# releases by the month they came out in, the last before a date is meant
_RELEASES = (
    ("2024-07", (0, 5, 3)), ("2024-09", (0, 6, 1)), ("2024-12", (0, 6, 5)), ("2025-01", (0, 7, 0)),
    ("2025-02", (0, 7, 3)), ("2025-03", (0, 8, 2)), ("2025-05", (0, 8, 5)), ("2025-06", (0, 9, 1)),
    ("2025-08", (0, 10, 1)), ("2025-10", (0, 11, 0)), ("2025-12", (0, 13, 0)), ("2026-02", (0, 16, 0)),
    ("2026-04", (0, 19, 1)), ("2026-05", (0, 21, 0)), ("2026-06", (0, 23, 0)), ("2026-07", (0, 25, 0)),
    ("2026-08", (0, 27, 1)), ("2026-09", (0, 29, 0)), ("2026-10", (0, 31, 0)), ("2026-11", (0, 33, 0)),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRules:
    """What differs between releases.

    gpu_memory_utilization: the default. subtracts_graphs: the estimate of CUDA graphs lowers the KV cache.
    counts_context: what driver, context and NCCL take is subtracted from the share (V0). window_keeps_all_batches:
    windowed layers reserve for every batch in flight. has_large_tier: cards from 160 GiB have defaults of their own.
    excludes_a100: A100-80 counts as a small card. tokens_by_groups: the printed capacity charges every group a full
    block. charges_all_stages: the fit test counts all layers of the model on every pipeline stage.
    """

    version: tuple[int, int, int]
    gpu_memory_utilization: float
    subtracts_graphs: bool
    counts_context: bool
    window_keeps_all_batches: bool
    has_large_tier: bool
    excludes_a100: bool
    tokens_by_groups: bool
    charges_all_stages: bool

    @property
    def text(self) -> str:
        """The release as people write it."""
        return ".".join(map(str, self.version))


def version_rules(version: str | None, date: str | None) -> VersionRules:
    """Rules of a release, or of the newest one by a date; raises InvalidRequest for what is no release."""
    return _rules(_release(version, date))


def _release(version: str | None, date: str | None) -> tuple[int, int, int]:
    if version is not None:
        found = _VERSION.fullmatch(version.strip())
        if found is None:
            raise InvalidRequest(
                f"{version[:40]!r} is no release of vLLM: write it as 0.33.0.", fields=("engine.version",)
            )
        return int(found[1]), int(found[2]), int(found[3] or 0)
    if date is not None:
        return max((release for month, release in _RELEASES if month <= date[:7]), default=_RELEASES[0][1])
    return NEWEST


def _rules(version: tuple[int, int, int]) -> VersionRules:
    return VersionRules(
        version=version,
        gpu_memory_utilization=0.92 if version >= (0, 21, 0) else 0.9,
        subtracts_graphs=version >= (0, 21, 0),
        counts_context=version < (0, 8, 0),
        window_keeps_all_batches=version >= (0, 20, 0),
        has_large_tier=version >= (0, 21, 0),
        excludes_a100=version >= (0, 9, 0),
        tokens_by_groups=version < (0, 20, 1),
        charges_all_stages=(0, 11, 0) <= version < (0, 17, 0),
    )
