"""The best way to run a model where the split over several cards is open."""

from dataclasses import replace

from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.search.joint_cards import fastest_joint
from service.core.engines.llamacpp.search.judge import Judge
from service.core.engines.llamacpp.search.offload import best_offload
from service.core.engines.llamacpp.search.on_cards import best_division
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.types import Rig


def is_searched(rig: Rig, settings: LlamaCppSettings) -> bool:
    """Whether there is a split to look for: several cards, and neither shares nor layers stated."""
    return (
        len(rig.gpus) > 1
        and (settings.devices is None or len(settings.devices) > 1)
        and settings.split_mode in (None, "layer")
        and settings.n_gpu_layers is None
        and settings.tensor_split is None
        and settings.main_gpu >= 0
    )


def best_on_cards(judge: Judge, settings: LlamaCppSettings, context_tokens: int) -> Choice | None:
    """The best way to hold everything on the cards; None where there is none.

    settings: as the user fixed them. Split mode tensor is experimental in llama.cpp, and how it processes prompts
    depends on a link between the cards that a rig seldom states: it is taken by itself only where nothing else fits.
    """
    full = replace(settings, n_gpu_layers="all")
    divided = best_division(judge, full, context_tokens)
    if divided is not None:
        return divided.choice
    joint = fastest_joint(judge, full, context_tokens)
    choice = None if joint is None else judge.question.place(joint, context_tokens)
    return choice if choice is not None and choice.fits else None


__all__ = ["best_offload", "best_on_cards", "is_searched"]
