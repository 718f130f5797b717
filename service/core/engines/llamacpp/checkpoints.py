"""What llama-server copies to main memory before a prompt's last tokens: caches that it could not roll back."""

from dataclasses import dataclass
from datetime import date
from typing import Final

from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.versions import version_rules

CHECKPOINT_BYTES_PER_S: Final = 0.75e9
"""Bytes of a checkpoint that are copied in a second.

Far below a link's rate: rows of every layer are copied one after the other into memory that is not pinned. The mean of
two machines. Of Qwen3.6-27B 150 to 168 MiB took 119 to 188 ms, eight times, on an RTX 5090, by the median 0.93 GB/s
(timestamps of llama-server's log, build 2c4055912, 2026-05-16). On RTX 3090 its first token comes 0.21 to 0.30 s later
than prompt and a step take, with 150 MiB by the median of five rows 0.62 GB/s (tests/speed, 4x3090-llm-benchmarks).
"""

CHECKPOINT_RANGE: Final = (0.15, 1.5)
"""How much less or more copies may take: the two machines differ by half, and logs of others show 4 and 11 GB/s."""

_KEPT_TOKENS: Final = 4
_KEPT_WHOLE: Final = frozenset({"recurrent", "swa"})
_COPIED_SINCE: Final = date(2026, 3, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """How often a prompt's state is copied before its first token, and the bytes of all copies."""

    count: int
    size_bytes: int

    @property
    def copies_s(self) -> float:
        """Time that the first token waits for them."""
        return self.size_bytes / CHECKPOINT_BYTES_PER_S


def checkpoints_of(choice: Choice) -> Checkpoints | None:
    """Copies of a cold prompt in one message; None where there are none.

    A recurrent state, and a cache that keeps no more than a window, cannot go back to an earlier token. llama-server
    therefore stops a prompt 4 tokens before its end, and one ubatch before that, and copies there what is in them.
    Source: update_slots and create_checkpoint, tools/server/server-context.cpp (llama.cpp in llama-cpp-python 0.3.36);
    pull request 20288.
    """
    if _KEPT_WHOLE.isdisjoint([group.layout.kind for group in choice.placement.caches.groups]):
        return None
    choice = choice.alone()
    settings, ctx, hp = choice.settings, choice.placement.ctx, choice.question.hp
    built = version_rules(settings.version, settings.date).as_of
    if settings.tool != "llama-server" or hp.arch.encoder or (built is not None and built < _COPIED_SINCE):
        return None
    workload = choice.question.workload
    copied = []
    for left in (_KEPT_TOKENS + ctx.n_ubatch, _KEPT_TOKENS):
        tokens = workload.cached_tokens + workload.prompt_tokens - left
        if tokens > 0 and left < workload.prompt_tokens:
            copied.append(_state_bytes(choice, tokens))
    size_bytes = sum(copied)
    return Checkpoints(count=len(copied), size_bytes=size_bytes) if size_bytes else None


def _state_bytes(choice: Choice, tokens: int) -> int:
    """Bytes of one sequence that cannot be rolled back, `tokens` tokens after its start."""
    hp, found = choice.question.hp, 0.0
    kept = 0 if choice.placement.ctx.swa_full else min(tokens, hp.n_swa)
    for group in choice.placement.caches.groups:
        rows = {"recurrent": 1, "swa": min(kept, group.cells)}.get(group.layout.kind, 0)
        if rows and group.rows:
            found += rows * group.bytes_between(0, hp.n_layer_all, "cpu") / group.rows
    return round(found)
