"""Whether a draft pays, and how many tokens it should propose."""

from collections.abc import Iterator

from service.contract.plan import Advice
from service.core.engines.llamacpp.search.judge import LEAST_GAIN
from service.core.engines.llamacpp.speed import most_useful_draft
from service.core.timing.speculation import Speculation
from service.planning.findings import Findings


def draft_gain(findings: Findings) -> Iterator[Advice]:
    """What a draft gains or costs, the acceptance that it takes to pay, and the best number of tokens per step."""
    found = findings.speed.speculation
    if found is None:
        return
    best = most_useful_draft(findings.choice, findings.speed) or found
    pays, even = found.gain >= 1, found.break_even_fraction
    yield Advice(
        code="draft-pays" if pays else "draft-loses",
        message=f"With {found.acceptance_fraction:.0%} of its tokens accepted in turn, a draft of {found.tokens} "
        f"tokens yields {found.tokens_per_step:.2f} tokens a step and decodes {found.gain:.2f} times as fast as "
        f"without ({1 / found.token_s:.1f} instead of {1 / found.plain_s:.1f} tokens/s). {_break_even(found)} "
        f"{_best(found, best)}",
        numbers={
            "gain": found.gain,
            "acceptance_fraction": found.acceptance_fraction,
            **({} if even is None else {"break_even_acceptance_fraction": even}),
            "step_tokens": found.tokens_per_step,
            "decode_tokens_per_s": 1 / found.token_s,
            "plain_decode_tokens_per_s": 1 / found.plain_s,
            "best_n_max": best.tokens,
            "best_gain": best.gain,
        },
    )


def _break_even(found: Speculation) -> str:
    if found.break_even_fraction is None:
        longer = found.step_s / found.plain_s
        return f"A step takes {longer:.2f} times as long as one without: no acceptance makes up for it."
    return f"Below {found.break_even_fraction:.0%} it would be slower than without."


def _best(found: Speculation, best: Speculation) -> str:
    if best.gain < 1:
        return "No other number of tokens per step is faster than decoding without the draft: leave it out."
    if best.gain < found.gain * LEAST_GAIN:
        return f"Another --spec-draft-n-max than {found.tokens} gains little."
    return f"--spec-draft-n-max {best.tokens} would be best at this acceptance: {best.gain:.2f} times as fast."
