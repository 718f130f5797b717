"""A plan as Block Kit: the verdict first, then memory, speed, power, warnings, the command, and other questions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from service.contract.estimate import Estimate
from service.contract.plan import Plan
from service.contract.problem import Problem
from service.contract.query_text import address_of_request, query_of_request
from service.contract.request import PlanRequest
from service.shells.slack.grammar import Refusal, words_of_help
from service.shells.slack.parts import Block, button, code, escaped, header, link, remark, rows, section, within
from service.shells.slack.text_bars import memory_lines
from service.shells.web.answer import BASES, answer_of
from service.shells.web.formats import gib, rate, watts, whole
from service.shells.web.links import adopted_question, suggested_questions
from service.shells.web.question import read_question

MOST_WARNINGS: Final = 6
MOST_ADVICE: Final = 3
MOST_ALTERNATIVES: Final = 4
ASK, CORRECT, SHARE, OPEN = "ask", "correct", "share", "open"
_MARKS: Final = {
    "fits": ":white_check_mark:", "fits_with_host_offload": ":warning:", "does_not_fit": ":x:",
    "info": ":information_source:", "warning": ":warning:", "error": ":x:",
}  # fmt: skip
_CONTEXTS: Final = tuple(2**power for power in range(12, 21))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What Slack shows; `text` is what notifications and screen readers say."""

    text: str
    blocks: list[Block] = field(default_factory=list)


def plan_message(request: PlanRequest, plan: Plan, origin: str, *, shared_by: str | None = None) -> Message:
    """The answer to a question; where somebody shared it, without the buttons that are about asking on."""
    answer = answer_of(plan.model_dump(mode="json"))
    blocks = [
        header(f"{answer.verdict}: {answer.headline}"),
        section(f"{_MARKS[plan.verdict]} *{answer.verdict}*{_context(plan)}"),
        code("\n".join(memory_lines(plan)), "Memory, in GiB"),
        *_speed(plan),
        *_power(plan),
        *_warnings(plan),
        *(section(f":bulb: {escaped(advice.message)}") for advice in plan.advice[:MOST_ADVICE]),
        code(plan.command.text, "Command"),
        *([remark(f"Shared by <@{shared_by}>")] if shared_by else []),
        *_buttons(request, plan, origin, is_shared=shared_by is not None),
    ]
    return Message(text=escaped(answer.summary)[:1000], blocks=within(blocks))


def problem_message(request: PlanRequest, refused: Problem) -> Message:
    """Why a question has no answer, with the questions that its suggestions make."""
    question = read_question(query_of_request(request))
    others = [
        button(suggestion, f"{ASK}_suggestion_{number}", address.partition("?")[2])
        for number, (suggestion, address) in enumerate(suggested_questions(question, refused))
    ]
    blocks = [section(f":no_entry: *{escaped(refused.title)}*\n{escaped(refused.detail)}"), *rows(others)]
    return Message(text=escaped(refused.detail)[:1000], blocks=within(blocks))


def refusal_message(refusal: Refusal) -> Message:
    """Why a line is not a question, with the lines that were perhaps meant."""
    lines = [
        button(correction, f"{CORRECT}_{number}", correction) for number, correction in enumerate(refusal.corrections)
    ]
    asked = "\nDid you mean:" if lines else ""
    blocks = [section(f":thinking_face: {escaped(refusal.detail)}{asked}"), *rows(lines)]
    return Message(text=escaped(refusal.detail)[:1000], blocks=[*blocks, remark("`/rigfit help` shows what I read.")])


def help_message() -> Message:
    """What can be asked."""
    examples = "\n".join(f"/rigfit {line}" for line in words_of_help())
    said = (
        "Ask whether a model fits on cards, and how fast it will run. Words come in any order: a model, cards with "
        "`2x`, a context (`32k`, `max`), users, a quantisation, `kv q8`, `1000w psu`, `64gb ram`, `vllm`. "
        "`/rigfit` alone opens a form."
    )
    return Message(text="How to ask", blocks=[section(said), code(examples)])


def value_of(request: PlanRequest) -> str:
    """A question as a button keeps it."""
    return urlencode(query_of_request(request))


def _context(plan: Plan) -> str:
    parts = [f" at {whole(plan.workload.context_tokens or 0)} tokens of context"]
    if plan.max_context_tokens:
        parts.append(f"up to {whole(plan.max_context_tokens)} fit with these choices")
    if plan.shortfall_bytes:
        parts.append(f"{gib(plan.shortfall_bytes)} GiB short")
    return "; ".join(parts)


def _speed(plan: Plan) -> Iterator[Block]:
    speed = plan.speed
    if speed is None:
        return
    lines = ["_If it fitted:_"] if plan.verdict == "does_not_fit" else []
    lines.append(f"*Decode* {_range(speed.decode_tokens_per_s)} tok/s")
    if plan.workload.parallel > 1:
        together = _range(speed.aggregate_decode_tokens_per_s)
        lines.append(f"*{plan.workload.parallel} streams together* {together} tok/s")
    if speed.prefill_tokens_per_s is not None:
        lines.append(f"*Prefill* {_range(speed.prefill_tokens_per_s)} tok/s")
    if speed.ttft_s is not None:
        lines.append(f"*First token* after {_range(speed.ttft_s)} s")
    limit = speed.limited_by.replace("_", " ")
    lines.append(f"_{speed.basis}: {BASES[speed.basis]}; limited by {limit}_")
    yield section("\n".join(lines))


def _power(plan: Plan) -> Iterator[Block]:
    power = plan.power
    if power is not None:
        yield section(
            f"*Power* {watts(power.system_peak_w)} W at peak, {watts(power.system_decode_w)} W in decode; "
            f"supply of {watts(power.recommended_psu_w)} W"
        )


def _warnings(plan: Plan) -> Iterator[Block]:
    """The gravest first; says how many are left out."""
    order = ("error", "warning", "info")
    warnings = sorted(plan.warnings, key=lambda warning: order.index(warning.severity))
    for warning in warnings[:MOST_WARNINGS]:
        yield section(f"{_MARKS[warning.severity]} {escaped(warning.message)}")
    if len(warnings) > MOST_WARNINGS:
        yield remark(f"{len(warnings) - MOST_WARNINGS} more remarks are on the page.")


def _buttons(request: PlanRequest, plan: Plan, origin: str, *, is_shared: bool) -> list[Block]:
    open_page = link("Open page", OPEN, origin + address_of_request("/", request))
    if is_shared:
        return rows([open_page])
    share = button("Share to channel", SHARE, value_of(request))
    return [*rows(_other_contexts(request, plan)), *rows(_alternatives(request, plan)), *rows([share, open_page])]


def _other_contexts(request: PlanRequest, plan: Plan) -> Sequence[Block | None]:
    """Half and twice the context and so on, up to the trained one, and the largest that fits."""
    now, most = plan.workload.context_tokens or 0, plan.model.trained_context_tokens
    shorter = [tokens for tokens in _CONTEXTS if tokens < now][-2:]
    longer = [tokens for tokens in _CONTEXTS if now < tokens <= most][:2]
    named: dict[int | None, str] = {tokens: f"{tokens // 1024}k" for tokens in (*shorter, *longer)}
    if request.workload.context_tokens is not None:
        named[None] = "Max context"
    return [
        button(label, f"{ASK}_context_{number}", value_of(_at(request, tokens)))
        for number, (tokens, label) in enumerate(named.items())
    ]


def _at(request: PlanRequest, context_tokens: int | None) -> PlanRequest:
    workload = request.workload.model_copy(update={"context_tokens": context_tokens})
    return request.model_copy(update={"workload": workload})


def _alternatives(request: PlanRequest, plan: Plan) -> list[Block | None]:
    document: dict[str, Any] = plan.model_dump(mode="json")
    found: list[Block | None] = []
    for number, other in enumerate(document["alternatives"][:MOST_ALTERNATIVES]):
        address = adopted_question(request, document, other)
        if address is not None:
            found.append(button(f"Or: {other['label']}", f"{ASK}_other_{number}", address.partition("?")[2]))
    return found


def _range(estimate: Estimate) -> str:
    return f"{rate(estimate.mid)} ({rate(estimate.low)}-{rate(estimate.high)})"
