"""Flags of llama-server for what runs beside a model."""

from collections.abc import Iterator

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.cache_types import DEFAULT_CACHE_TYPE
from service.core.engines.llamacpp.companions import Companions, Draft, Projector
from service.core.engines.llamacpp.flag import Flag, file_name, override_entry
from service.core.types import Rig


def companion_flags(companions: Companions, rig: Rig) -> Iterator[Flag]:
    """Flags of the draft and the projector.

    The kind of speculation is always said, since -md alone loads a draft model and then leaves it unused, and so are
    the tokens per step, whose default has moved.
    Source: common/arg.cpp:2578-2627 and 4090-4256 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if companions.draft is not None:
        yield from _draft_flags(companions.draft, rig)
    if companions.projector is not None:
        yield from _projector_flags(companions.projector)


def _draft_flags(draft: Draft, rig: Rig) -> Iterator[Flag]:
    own = draft.settings
    if draft.model is not None:
        yield Flag(("-md", file_name(draft.model)), "The draft model's GGUF file: put your path here.")
    yield Flag(
        ("--spec-type", draft.spec_type), "Kind of speculation; without it a draft model is loaded and not used."
    )
    yield Flag(("--spec-draft-n-max", str(draft.n_max)), "Tokens the draft proposes per step.")
    if draft.model is not None and rig.gpus:
        layers = "all" if own.n_gpu_layers is None else str(own.n_gpu_layers)
        yield Flag(("-ngld", layers), "Layers of the draft model on the cards.")
    for flag, cache_type, what in (("-ctkd", own.cache_type_k, "keys"), ("-ctvd", own.cache_type_v, "values")):
        if cache_type not in (None, DEFAULT_CACHE_TYPE):
            yield Flag((flag, str(cache_type)), f"Type that the draft's cache keeps {what} in.")
    if own.override_tensor:
        entries = ",".join(override_entry(override, rig) for override in own.override_tensor)
        yield Flag(("-otd", entries), "Tensors of the draft model by pattern to a buffer type.")
    if own.n_cpu_moe and draft.model is not None:
        blocks = min(own.n_cpu_moe, read_hparams(draft.model).n_layer_all)
        yield Flag(("-ncmoed", str(blocks)), "Routed experts of so many first blocks of the draft stay in main memory.")


def _projector_flags(projector: Projector) -> Iterator[Flag]:
    name = "mmproj.gguf" if projector.model is None else f"mmproj-{file_name(projector.model)}"
    yield Flag(("--mmproj", name), "The projector's GGUF file: put your path here.")
    if projector.on_host:
        yield Flag(("--no-mmproj-offload",), "The projector stays in main memory.")
