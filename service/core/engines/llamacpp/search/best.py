"""The best way to run a model where the split over several cards is open."""

from dataclasses import dataclass, replace
from math import inf

from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.search.joint_cards import fastest_joint
from service.core.engines.llamacpp.search.judge import Judge
from service.core.engines.llamacpp.search.offload import best_offload
from service.core.engines.llamacpp.search.on_cards import best_division
from service.core.engines.llamacpp.settings import LlamaCppSettings


def is_searched(question: Question, settings: LlamaCppSettings) -> bool:
    """Whether there is a split to look for: several cards, and neither shares nor layers stated."""
    return (
        len(question.rig.gpus) > 1
        and (settings.devices is None or len(settings.devices) > 1)
        and settings.split_mode in (None, "layer")
        and settings.n_gpu_layers is None
        and settings.tensor_split is None
        and settings.main_gpu >= 0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The choice, and the time of a request with it; joint: the best settings in split mode tensor, chosen or not."""

    choice: Choice
    request_s: float
    joint: LlamaCppSettings | None = None


def best_on_cards(judge: Judge, settings: LlamaCppSettings, context_tokens: int) -> Best | None:
    """The best way to hold everything on the cards; None where there is none.

    settings: as the user fixed them. Split mode tensor is experimental in llama.cpp, and how it processes prompts
    depends on a link between the cards that a rig seldom states: it is taken by itself only where nothing else fits.
    """
    full = replace(settings, n_gpu_layers="all")
    divided = best_division(judge, full, context_tokens)
    joint = fastest_joint(judge, full, context_tokens)
    if divided is not None:
        return Best(choice=divided.choice, request_s=divided.request_s, joint=joint)
    if joint is None:
        return None
    choice = judge.question.place(joint, context_tokens)
    joint_s = judge.request_s(joint, context_tokens)
    return Best(choice=choice, request_s=inf if joint_s is None else joint_s, joint=joint) if choice.fits else None


__all__ = ["Best", "best_offload", "best_on_cards", "is_searched"]
