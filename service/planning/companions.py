"""What a request wants beside the model, as the core reasons about it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from service.contract.companions import OWN_DRAFT_LAYERS, DraftRequest, MmprojRequest
from service.contract.engine import LlamaCppEngine
from service.contract.model_reference import ModelReference
from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.companions import ALONE, Companions, Draft, Projector
from service.core.engines.llamacpp.drafts import check_shared, resolve_spec_type
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.problems import Contradiction, InvalidRequest, concerning
from service.core.types import Model
from service.planning.settings import layers_of, overrides_of

Note: TypeAlias = tuple[str, str]
Resolve: TypeAlias = Callable[[ModelReference], tuple[Model, Sequence[str]]]

PROJECTOR_ARCHITECTURE = "clip"
"""Source: KEY_HAS_VISION_ENC and others, tools/mtmd/clip-impl.h; convert_hf_to_gguf.py (llama.cpp in llama-cpp-python
0.3.36)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What runs beside the model; notes: what was read into the names, by field."""

    companions: Companions = ALONE
    notes: tuple[Note, ...] = ()


def beside_of(engine: LlamaCppEngine, target: Model, resolve: Resolve) -> Beside:
    """Resolve the draft and the projector of a request.

    Raises as `resolve` does, with the companion's field; Contradiction and InvalidRequest where they cannot run beside
    the target.
    """
    if engine.draft is None and engine.mmproj is None:
        return Beside()
    notes: list[Note] = []
    return Beside(
        companions=Companions(
            draft=_draft(engine.draft, target, resolve, notes), projector=_projector(engine.mmproj, resolve, notes)
        ),
        notes=tuple(notes),
    )


def _draft(asked: str | DraftRequest | None, target: Model, resolve: Resolve, notes: list[Note]) -> Draft | None:
    if asked is None:
        return None
    named = "engine.draft" if isinstance(asked, str) else "engine.draft.model"
    if asked == OWN_DRAFT_LAYERS:
        asked = DraftRequest(spec_type="draft-mtp")
    elif isinstance(asked, str):
        asked = DraftRequest(model=asked)
    model = None if asked.model is None else _resolved(asked.model, named, resolve, notes)
    with concerning("engine.draft"):
        spec_type = resolve_spec_type(asked.spec_type, model)
        if model is None:
            _refuse_model_fields(asked)
        else:
            check_shared(read_hparams(target), model, spec_type)
    return Draft(
        model=model,
        spec_type=spec_type,
        n_max=asked.n_max,
        acceptance_fraction=asked.acceptance_fraction,
        settings=_settings(asked),
    )


def _settings(asked: DraftRequest) -> LlamaCppSettings:
    with concerning("engine.draft.override_tensor"):
        overrides = overrides_of(asked.override_tensor)
    return LlamaCppSettings(
        cache_type_k=asked.cache_type_k,
        cache_type_v=asked.cache_type_v,
        n_gpu_layers=layers_of(asked.n_gpu_layers),
        n_cpu_moe=asked.n_cpu_moe,
        override_tensor=overrides,
    )


def _refuse_model_fields(asked: DraftRequest) -> None:
    """The model's own draft layers lie where the model lies: fields that place a draft model mean nothing."""
    for field in ("n_gpu_layers", "n_cpu_moe", "override_tensor"):
        if getattr(asked, field) not in (None, []):
            raise Contradiction(
                f"engine.draft.{field} places a draft model, and the model's own draft layers lie where the model "
                f"lies: leave it out, or state engine.{field}",
                fields=(f"engine.draft.{field}",),
            )


def _projector(asked: str | MmprojRequest | None, resolve: Resolve, notes: list[Note]) -> Projector | None:
    if asked is None:
        return None
    named = "engine.mmproj" if isinstance(asked, str) else "engine.mmproj.model"
    if isinstance(asked, str):
        asked = MmprojRequest(model=asked)
    if (asked.model is None) == (asked.weights_bytes is None):
        raise InvalidRequest(
            "engine.mmproj needs either its model or its weights_bytes: state one of them", fields=("engine.mmproj",)
        )
    if asked.model is None:
        return Projector(weights_bytes=asked.weights_bytes or 0, on_host=not asked.offload)
    model = _resolved(asked.model, named, resolve, notes)
    if model.architecture != PROJECTOR_ARCHITECTURE:
        raise Contradiction(
            f"this {model.architecture} file is no projector: name an mmproj file, whose architecture is "
            f"{PROJECTOR_ARCHITECTURE!r}",
            fields=(named,),
        )
    return Projector(model=model, on_host=not asked.offload)


def _resolved(reference: ModelReference, field: str, resolve: Resolve, notes: list[Note]) -> Model:
    with concerning(field):
        model, found = resolve(reference)
    notes.extend((field, note) for note in found)
    return model
