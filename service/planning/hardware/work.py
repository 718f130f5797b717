"""What an engine's plan makes a rig do, as far as power and links depend on it."""

from dataclasses import dataclass

from service.core.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """How the cards work; rules that depend on nothing else of a plan are computed once per rig and mode.

    together: cards share every layer. host_works: the processor computes part of the model. sharing: cards that hold
    part of it, by position. prompt_heavy: the workload is mostly prompt. serves: the engine runs as a server.
    n_embd, meetings_per_token, ubatch_tokens: what cards exchange, and how often.
    """

    together: bool
    host_works: bool
    sharing: tuple[int, ...]
    prompt_heavy: bool
    serves: bool
    n_embd: int
    meetings_per_token: int
    ubatch_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One plan's work.

    busy_fractions: part of a decode step in which each card of the rig computes. tokens_per_s: generated tokens of all
    streams together, None without a speed. weights_bytes: on each card.
    """

    mode: Mode
    busy_fractions: tuple[float, ...]
    tokens_per_s: Estimate | None
    weights_bytes: tuple[int, ...]
