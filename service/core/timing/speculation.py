"""How long a speculative step takes and how many tokens come of it: drafts, their verification, what is accepted."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from service.core.speed import Assumptions, Step
from service.core.timing.decode import Decode, decode
from service.core.timing.processor import Processors
from service.core.timing.work import Work

ASSUMED_ACCEPTANCE_FRACTION: Final = 0.84
"""Probability that a drafted token is accepted where all before it were, where nobody says better.

Source: shares of accepted drafts of Qwen3.8-27B's own draft layers, pooled over code, prose and shell prompts on 15
machines: 0.79 with two tokens a step, 0.72 with three, 0.65 with four, which one probability of 0.83 to 0.85 explains
(github.com/sudoingX/qwen38-mtp); llama.cpp pull request 22673 reports 0.75 with three.
"""

ASSUMED_ACCEPTANCE_RANGE: Final = (0.62, 0.97)
"""The same of prose and of code, the prompts that are drafted worst and best. Source: as above, per prompt."""

_DEEPEST_SEARCHED: Final = 16
_BISECTIONS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPass:
    """One way in which a draft runs in every step.

    work: of the draft, for one token. per_token: a pass for every token that is proposed, or one over all of them and
    the token before.
    """

    what: str
    work: Work
    per_token: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """What proposes tokens: its passes, and how many tokens it can propose at most, None where that is not limited."""

    passes: tuple[DraftPass, ...]
    most_tokens: int | None = None

    def proposed(self, asked: int) -> int:
        """Tokens that it proposes where `asked` are asked for."""
        return asked if self.most_tokens is None else min(asked, self.most_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """One speculative step of all streams beside a plain one.

    tokens: proposed to every stream. verify: the model's step over them and the token before. draft_s: all passes of
    the draft.
    """

    tokens: int
    acceptance_fraction: float
    plain_s: float
    verify: Decode
    drafts: tuple[Step, ...]

    @property
    def draft_s(self) -> float:
        """All passes of the draft."""
        return sum([step.s for step in self.drafts])

    @property
    def step_s(self) -> float:
        """All of a step."""
        return self.verify.step_s + self.draft_s

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a step yields on average."""
        return tokens_per_step(self.acceptance_fraction, self.tokens)

    @property
    def token_s(self) -> float:
        """Time of one token of every stream."""
        return self.step_s / self.tokens_per_step

    @property
    def gain(self) -> float:
        """How many times as fast as without a draft."""
        return self.plain_s / self.token_s

    @property
    def accepted_share(self) -> float:
        """Part of all proposed tokens that is accepted: what llama-server prints as draft acceptance."""
        return (self.tokens_per_step - 1) / self.tokens if self.tokens else 0.0

    @property
    def break_even_fraction(self) -> float | None:
        """Acceptance below which it is slower than without; None where even full acceptance is not enough."""
        return acceptance_for(self.step_s / self.plain_s, self.tokens)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Parts of a step for one token that comes of it."""
        parts = (*self.drafts, *self.verify.steps)
        return tuple([Step(what=step.what, s=step.s / self.tokens_per_step) for step in parts])


def tokens_per_step(acceptance_fraction: float, tokens: int) -> float:
    """Expected tokens of a step that proposes `tokens`: those accepted in a row, and the model's own after them.

    1 + p + p^2 + ... + p^n. Source: Leviathan et al., "Fast inference from transformers via speculative decoding"
    (2023), equation 1; llama-server's synthetic acceptance is the same, common_speculative_synth_rates_resolve,
    common/speculative.cpp:2365-2440 (llama.cpp in llama-cpp-python 0.3.36).
    """
    return sum([acceptance_fraction**position for position in range(tokens + 1)])


def acceptance_for(tokens_wanted: float, tokens: int) -> float | None:
    """Acceptance at which a step yields so many tokens; None where it cannot. Inverse of `tokens_per_step`."""
    if tokens_wanted > tokens + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if tokens_per_step(middle, tokens) < tokens_wanted else (low, middle)
    return high if tokens_wanted > 1 else 0.0


def speculate(
    target: Work,
    drafting: Drafting,
    rates: Processors,
    assumptions: Assumptions,
    *,
    tokens: int,
    acceptance_fraction: float,
) -> Speculation | None:
    """A speculative step of `tokens` proposed; None where a bandwidth or a rate of arithmetic is not known.

    The draft proposes one token after another, or a block at once; the model then computes all of them and the token
    before in one step, which reads its weights once. Nothing overlaps: each waits for the other's tokens.
    Source: common/speculative.cpp (draft and process of every kind), tools/server/server-context.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    if not _can_compute(target, rates):
        return None
    proposed = drafting.proposed(tokens)
    plain = decode(target, rates, assumptions)
    verify = decode(replace(target, queries=proposed + 1), rates, assumptions)
    drafts = tuple(_drafts(drafting, rates, assumptions, proposed))
    if plain is None or verify is None or None in drafts:
        return None
    return Speculation(
        tokens=proposed,
        acceptance_fraction=acceptance_fraction,
        plain_s=plain.step_s,
        verify=verify,
        drafts=tuple([step for step in drafts if step is not None and step.s > 0]),
    )


def _can_compute(work: Work, rates: Processors) -> bool:
    """Whether the arithmetic of every card that works is known, without which verifying would seem to cost nothing."""
    pairs = zip(work.cards, rates.cards, strict=True)
    return all(rate.prompt_flops_per_s is not None for card, rate in pairs if card.dense_bytes or card.expert_bytes)


def _drafts(drafting: Drafting, rates: Processors, assumptions: Assumptions, tokens: int) -> Iterator[Step | None]:
    overhead_s = max([each.constants.draft_pass_s for each in rates.cards], default=rates.host.constants.draft_pass_s)
    for each in drafting.passes if tokens else ():
        times, queries = (tokens, 1) if each.per_token else (1, tokens + 1)
        step = decode(replace(each.work, queries=queries), rates, assumptions)
        yield None if step is None else Step(what=f"{times} x {each.what}", s=times * (step.step_s + overhead_s))


def best_tokens(at: Callable[[int], Speculation | None]) -> Speculation | None:
    """The number of proposed tokens that is fastest, up to what a draft can usefully be asked for."""
    found = [each for tokens in range(1, _DEEPEST_SEARCHED + 1) if (each := at(tokens)) is not None]
    return min(found, key=lambda each: each.token_s, default=None)
