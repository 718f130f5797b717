"""What a question in Slack says besides its model and its cards: each phrase is read, and blanked where it stood."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from service.core.problems import InvalidRequest
from service.core.units import GIB

BLANK: Final = "|"
# what a word counts that stands for a number
COUNTS: Final = {
    "a": 1, "an": 1, "one": 1, "single": 1, "two": 2, "dual": 2, "three": 3, "triple": 3, "four": 4, "quad": 4,
    "five": 5, "six": 6, "seven": 7, "eight": 8,
}  # fmt: skip
_START, _END = r"(?<![^\s|(;,])", r"(?=$|[\s|;!?)]|[.,:](?=\s|$))"
_N: Final = r"(?P<n>\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)"
_TOKENS: Final = _N + r"\s?(?P<unit>[km])?"
_FEW: Final = rf"(?P<n>\d+|{'|'.join(word for word, count in COUNTS.items() if count > 1)})"
_CONTEXT: Final = r"(?:ctx|context|n_ctx|--ctx-size|-c)(?:[\s-](?:size|length|window))?"
_KV: Final = r"(?:kv(?:[\s-]cache)?|cache)"
_CACHE: Final = r"(?P<type>(?:q[458](?:_[01])?|iq4_nl|b?f16|f32|fp16|fp8))"
_CACHE_TYPES: Final = {"q8": "q8_0", "q5": "q5_0", "q4": "q4_0", "fp16": "f16"}
_SCALES: Final = {"": 1, "k": 1024, "m": 1024**2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """One way to state a field; `read` gives its value."""

    part: str
    field: str
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], Any]


@dataclass(slots=True, kw_only=True)
class Stated:
    """What was read so far: fields by part, and the text with blanks in their places."""

    text: str
    fields: dict[tuple[str, str], Any] = field(default_factory=dict)
    quant_span: tuple[int, int] | None = None

    def part(self, name: str) -> dict[str, Any]:
        """The fields of one part of the request."""
        return {inner: value for (part, inner), value in self.fields.items() if part == name}


def read_phrases(text: str, is_card: Callable[[str], bool]) -> Stated:
    """Read every phrase of a normalised question; `is_card` says whether a bare number names a card.

    Raises InvalidRequest where a field is stated twice and differently.
    """
    stated = Stated(text=text)
    for phrase in PHRASES:
        for match in list(phrase.pattern.finditer(stated.text)):
            if phrase.field == "context_tokens" and is_card(match[0].removeprefix("at").strip()):
                continue
            _state(stated, phrase, match)
    return stated


def _state(stated: Stated, phrase: Phrase, match: re.Match[str]) -> None:
    key, value = (phrase.part, phrase.field), phrase.read(match)
    if stated.fields.get(key, value) != value:
        name = phrase.field.replace("_", " ")
        raise InvalidRequest(f"Two values for {name}: {stated.fields[key]} and {value}. Say one.")
    stated.fields[key] = value
    start, end = match.span()
    if phrase.field == "quant":
        stated.quant_span = (start, end)
    stated.text = stated.text[:start] + BLANK * (end - start) + stated.text[end:]


def _number(match: re.Match[str]) -> float:
    return float(match["n"].replace(",", ""))


def _tokens(match: re.Match[str]) -> int:
    return round(_number(match) * _SCALES[(match["unit"] or "").lower()])


def _count(match: re.Match[str]) -> int:
    said = match["n"].lower()
    return COUNTS[said] if said in COUNTS else int(said)


def _watts(match: re.Match[str]) -> float:
    return _number(match) * (1000 if (match["unit"] or "").lower() == "kw" else 1)


def _ram_bytes(match: re.Match[str]) -> int:
    return round(_number(match) * GIB * (1024 if match["unit"].lower() == "t" else 1))


def _cache_type(match: re.Match[str]) -> str:
    said = match["type"].lower()
    return _CACHE_TYPES.get(said, said)


def _text(group: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match[group].lower()


def _always(value: Any) -> Callable[[re.Match[str]], Any]:
    return lambda _: value


def _phrases(part: str, name: str, read: Callable[[re.Match[str]], Any], *patterns: str) -> Iterator[Phrase]:
    for pattern in patterns:
        whole = re.compile(f"{_START}(?:{pattern}){_END}", re.IGNORECASE)
        yield Phrase(part=part, field=name, pattern=whole, read=read)


# in this order: what has more words of its own comes before what is read from less
PHRASES: Final = (
    *_phrases(
        "choice", "power_limit_w", _watts,
        _N + r"\s?(?P<unit>k?w)(?:atts?)?\s+(?:each|per\s+(?:card|gpu)|(?:power[\s-])?(?:limit|cap))",
        r"(?:limited\s+to|capped\s+at|power[\s-]limit(?:\s+of)?)\s?[:=]?\s?" + _N
        + r"\s?(?P<unit>k?w)?(?:atts?)?(?:\s+each)?",
    ),
    *_phrases("engine", "flash_attn", _always(False), r"(?:no|without)\s+(?:flash[\s-]attention|fa)"),
    *_phrases("engine", "flash_attn", _always(True), r"flash[\s-]attention|fa"),
    *_phrases(
        "psu", "rated_w", _watts,
        _N + r"\s?(?P<unit>k?w)(?:atts?)?[\s-]*(?:psu|power[\s-]supply|supply|power)",
        _N + r"(?P<unit>)\s?psu",
        r"(?:psu|power[\s-]supply|supply|power)(?:\s+of)?\s?[:=]?\s?" + _N + r"\s?(?P<unit>k?w)?(?:atts?)?",
    ),
    *_phrases(
        "host", "ram_bytes", _ram_bytes,
        _N + r"\s?(?P<unit>[gt])(?:i?b)?\s+(?:of\s+)?(?:system\s+|main\s+)?(?:ram|ddr[45]|memory)",
        r"ram(?:\s+of)?\s?[:=]?\s?" + _N + r"\s?(?P<unit>[gt])(?:i?b)?",
    ),
    *_phrases(
        "workload", "parallel", _count,
        _FEW + r"\s+(?:concurrent\s+|parallel\s+|simultaneous\s+)?"
        r"(?:users?|streams?|people|sessions?|requests?|slots?|parallel|concurrent)",
        r"(?:parallel|users|streams|-np|np)\s?[:=]?\s?" + _FEW,
    ),
    *_phrases(
        "workload", "prompt_tokens", _tokens,
        _TOKENS + r"(?:[\s-]tokens?)?[\s-]prompts?", r"prompts?(?:\s+of)?\s?[:=]?\s?" + _TOKENS + r"(?:\s+tokens?)?",
    ),
    *_phrases(
        "workload", "output_tokens", _tokens,
        _TOKENS + r"(?:[\s-]tokens?)?[\s-]output", r"output(?:\s+of)?\s?[:=]?\s?" + _TOKENS + r"(?:\s+tokens?)?",
    ),
    *_phrases("engine", "kv_type", _cache_type, _CACHE + rf"\s+{_KV}", rf"{_KV}\s?[:=]?\s?" + _CACHE),
    *_phrases(
        "engine", "split_mode", _text("mode"),
        r"(?P<mode>layer|row|tensor)[\s-]split",
        r"(?:split(?:[\s-]mode)?|-sm)\s?[:=]?\s?(?P<mode>layer|row|tensor|none)",
    ),
    *_phrases("engine", "tensor_parallel_size", _count, r"tp\s?[:=]?\s?" + _FEW),
    *_phrases("engine", "pipeline_parallel_size", _count, r"pp\s?[:=]?\s?" + _FEW),
    *_phrases("engine", "version", _text("version"), r"(?:build\s+)?(?P<version>b\d{3,6})"),
    *_phrases(
        "engine", "version", _text("version"), r"(?<=vllm )v?(?P<version>0\.\d+\.\d+)"
    ),
    *_phrases("engine", "name", _always("vllm"), r"vllm"),
    *_phrases("engine", "name", _always("llama.cpp"), r"llama[.\s_-]?cpp|llama-server"),
    *_phrases("rig", "nvlink", _always(False), r"(?:no|without)\s+nvlink"),
    *_phrases("rig", "nvlink", _always(True), r"nvlink"),
    *_phrases("rig", "p2p", _always(False), r"(?:no|without)\s+p2p"),
    *_phrases("rig", "p2p", _always(True), r"p2p"),
    *_phrases(
        "choice", "host_alone", _always(True),
        r"(?:the\s+)?(?:cpu|host)(?:[\s-](?:only|alone))?", r"(?:no|without(?:\s+a)?)\s+gpus?",
    ),
    *_phrases(
        "workload", "context_tokens", _always(None),
        rf"(?:max(?:imum|imal)?|full|largest)\s+{_CONTEXT}", rf"{_CONTEXT}\s?[:=]?\s?(?:max(?:imum)?|full)",
        r"at\s+max(?:imum)?(?!\s+ctx|\s+context)",
    ),
    *_phrases(
        "workload", "context_tokens", _tokens,
        rf"{_CONTEXT}(?:\s+of)?\s?[:=]?\s?" + _TOKENS + r"(?:\s+tok(?:en)?s?)?",
        _TOKENS + rf"(?:[\s-]tok(?:en)?s?)?[\s-](?:of\s+)?{_CONTEXT}",
        _TOKENS + r"[\s-]tok(?:en)?s?", _N + r"\s?(?P<unit>[km])", r"at\s+" + _N + r"(?P<unit>)",
    ),
    *_phrases(
        "model", "quant", _text("quant"),
        r":?(?P<quant>(?:i?q|tq)\d\w*|b?f16|fp16|f32|fp8|mxfp4\w*|nvfp4|awq|gptq|int[48])",
    ),
)  # fmt: skip
