"""Flags of llama-server for what runs beside a model."""

from collections.abc import Callable, Iterator

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.cache_types import DEFAULT_CACHE_TYPE
from service.core.engines.llamacpp.companions import Companions, Draft, Projector
from service.core.engines.llamacpp.settings import OverrideTensor
from service.core.types import Model

FileName = Callable[[Model], str]
Entry = Callable[[OverrideTensor], str]


def companion_flags(companions: Companions, file_name: FileName, entry: Entry, *, has_cards: bool) -> Iterator[str]:
    """Flags of the draft and the projector; file_name: of a model's file, entry: one -ot entry.

    The kind of speculation is always said, since -md alone loads a draft model and then leaves it unused, and so are
    the tokens per step, whose default has moved.
    Source: common/arg.cpp:2578-2627 and 4090-4256 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if companions.draft is not None:
        yield from _draft_flags(companions.draft, file_name, entry, has_cards=has_cards)
    if companions.projector is not None:
        yield from _projector_flags(companions.projector, file_name)


def _draft_flags(draft: Draft, file_name: FileName, entry: Entry, *, has_cards: bool) -> Iterator[str]:
    own = draft.settings
    if draft.model is not None:
        yield from ("-md", file_name(draft.model))
    yield from ("--spec-type", draft.spec_type, "--spec-draft-n-max", str(draft.n_max))
    if draft.model is not None and has_cards:
        yield from ("-ngld", "all" if own.n_gpu_layers is None else str(own.n_gpu_layers))
    for flag, cache_type in (("-ctkd", own.cache_type_k), ("-ctvd", own.cache_type_v)):
        if cache_type not in (None, DEFAULT_CACHE_TYPE):
            yield from (flag, str(cache_type))
    if own.override_tensor:
        yield from ("-otd", ",".join(entry(override) for override in own.override_tensor))
    if own.n_cpu_moe and draft.model is not None:
        yield from ("-ncmoed", str(min(own.n_cpu_moe, read_hparams(draft.model).n_layer_all)))


def _projector_flags(projector: Projector, file_name: FileName) -> Iterator[str]:
    yield from ("--mmproj", "mmproj.gguf" if projector.model is None else f"mmproj-{file_name(projector.model)}")
    if projector.on_host:
        yield "--no-mmproj-offload"
