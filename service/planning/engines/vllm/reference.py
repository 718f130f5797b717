"""Which checkpoint a request means: a catalogue model in a format, a checkpoint that was imported, or a refusal."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath

from service.catalog.model_index import ID_PREFIX, ResolvedModel
from service.catalog.model_names import quant_key
from service.catalog.model_rows import ModelRow
from service.catalog.models import ModelCatalog
from service.catalog.vllm_models import PublishedModel, model_with_shapes_of_another, published_model
from service.contract.model_reference import ModelPath, ModelReference, ModelUrl
from service.core.checkpoints import Checkpoint
from service.core.engines.vllm.derived import derived_model
from service.core.engines.vllm.formats import FORMATS
from service.core.engines.vllm.hf_model import checkpoint_model
from service.core.engines.vllm.model import VllmModel
from service.core.problems import UnknownModel, Unsupported
from service.planning.engines.vllm.closest import closest_format
from service.planning.sources import Sources

_FORMAT_BY_KEY = {quant_key(name): name for name in FORMATS}
# further spellings of formats, as repositories write them
_SPELLINGS = {
    "F16": "BF16", "FP16": "BF16", "BFLOAT16": "BF16", "W8A8FP8": "FP8-DYNAMIC", "FP8BLOCK": "FP8",
    "W4A16": "INT4", "GPTQINT4": "GPTQ",
    "AWQINT4": "AWQ", "W8A8": "INT8", "FP4": "NVFP4", "MXFP4MOE": "MXFP4",
}  # fmt: skip
# formats that only models have whose maker publishes them
_NATIVE_ONLY = ("MXFP4", "MXFP4-FP8", "FBGEMM-FP8", "INT4-EXPERTS")
_HUB = re.compile(r"(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)", re.ASCII)
_TRAILING_FORMAT = re.compile(
    rf"(?P<name>.+?)[-_.:](?P<format>{'|'.join(sorted(map(re.escape, FORMATS), key=len, reverse=True))})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCheckpoint:
    """A model as vLLM loads it, what its command calls it, and what was read into its name.

    is_published: whether the format is known to be published under that name.
    """

    model: VllmModel
    checkpoint: str
    is_published: bool
    notes: Sequence[str]


def checkpoint_of(reference: ModelReference, sources: Sources) -> NamedCheckpoint:
    """The checkpoint that a reference names; raises UnknownModel or Unsupported."""
    if isinstance(reference, ModelUrl):
        return _fetched(reference.url, sources)
    if isinstance(reference, ModelPath):
        raise Unsupported(
            "vLLM is planned for models of the catalogue and for checkpoints: name one as name:BF16, name:FP8, "
            "name:AWQ, or its config.json by address, or import that.",
            fields=("model",),
        )
    models = sources.catalogues.models
    name, asked = _split(reference)
    if imported := _imported(models, reference):
        return imported
    other = model_with_shapes_of_another(name if asked else reference.partition(":")[0])
    resolved = _resolve(models, (other.shapes or "") if other else name if asked else reference, reference)
    published = other or published_model(resolved.row.name)
    called = published.name or resolved.row.name
    scheme = asked or _scheme_of_row(resolved, published, reference)
    scheme = published.aliases.get(scheme, scheme)
    _refuse_unpublished(scheme, published, called)
    model = derived_model(models.model(resolved.row), scheme, published.extras)
    if other is not None:
        trained = other.trained_context_tokens or model.trained_context_tokens
        model = _renamed(model, called, trained)
    repository = published.repositories.get(scheme)
    notes = [note for note in resolved.notes if not note.startswith("No quant")]
    if other is not None:
        notes.append(f"{called} has the shapes of {resolved.row.name}.")
    if not asked and ":" not in reference:
        notes.append(f"No format was named: {called}:{scheme} is meant.")
    return NamedCheckpoint(
        model=model,
        checkpoint=repository or f"./{called}-{scheme}",
        is_published=repository is not None,
        notes=tuple(notes),
    )


def _imported(models: ModelCatalog, reference: str) -> NamedCheckpoint | None:
    """A checkpoint of the catalogue, by its name, alias or id; None where the reference means something else."""
    try:
        resolved = models.resolve(reference)
    except UnknownModel:
        return None
    row = resolved.row
    if row.format != "safetensors":
        return None
    return NamedCheckpoint(
        model=_parsed(models, row),
        checkpoint=_hub_name(row.source) or f"./{row.name}",
        is_published=_hub_name(row.source) is not None,
        notes=tuple(note for note in resolved.notes if not note.startswith("No quant")),
    )


def _hub_name(source: str | None) -> str | None:
    """owner/repository of an address on the Hugging Face hub."""
    found = _HUB.search(source or "")
    return None if found is None else found[1]


@lru_cache(maxsize=64)
def _parsed(models: ModelCatalog, row: ModelRow) -> VllmModel:
    """A row's model, parsed once."""
    return checkpoint_model(models.checkpoint(row), row.name)


@lru_cache(maxsize=256)
def _renamed(model: VllmModel, name: str, trained_context_tokens: int) -> VllmModel:
    """A model under the name of another of the same shapes, the same object every time."""
    return replace(model, name=name, trained_context_tokens=trained_context_tokens)


def _fetched(url: str, sources: Sources) -> NamedCheckpoint:
    """A checkpoint by the address of its config.json."""
    content = sources.hosts().content(url)
    if not isinstance(content, Checkpoint):
        raise Unsupported(
            f"{url} is a GGUF file, which vLLM 0.33 does not load without a plugin: give the config.json of its "
            "checkpoint, or ask for engine.name llama.cpp.",
            fields=("model.url", "engine.name"),
        )
    name = _hub_name(url)
    called = name or PurePosixPath(url).parent.name or url
    return NamedCheckpoint(
        model=checkpoint_model(content, called.rpartition("/")[2]),
        checkpoint=name or f"./{called}",
        is_published=name is not None,
        notes=(),
    )


def _split(reference: str) -> tuple[str, str | None]:
    """Name and format of a reference that states one vLLM loads."""
    name, colon, quant = reference.strip().rpartition(":")
    if colon and not reference.lower().startswith(ID_PREFIX):
        key = quant_key(quant)
        return name, _FORMAT_BY_KEY.get(key) or _SPELLINGS.get(key)
    trailing = _TRAILING_FORMAT.fullmatch(reference.strip())
    if trailing is not None:
        return trailing["name"], _FORMAT_BY_KEY[quant_key(trailing["format"])]
    return reference, None


def _resolve(models: ModelCatalog, name: str, reference: str) -> ResolvedModel:
    """Any row of the model that a name means: shapes are the same in every quant."""
    try:
        return models.resolve(name)
    except UnknownModel as refused:
        for suggestion in refused.suggestions:
            if suggestion.rpartition(":")[0].casefold() == name.strip().casefold():
                return models.resolve(suggestion)
        if models.named(name) is None:
            raise
        raise UnknownModel(
            f"{reference!r} names no format that vLLM loads: {', '.join(FORMATS)}.", fields=("model",)
        ) from None


def _scheme_of_row(resolved: ResolvedModel, published: PublishedModel, reference: str) -> str:
    """The format of a row that was named without one of vLLM's; raises Unsupported for a GGUF quant."""
    row = resolved.row
    if any(note.startswith("No quant") for note in resolved.notes):
        return published.native
    key = quant_key(row.quant)
    stated = _FORMAT_BY_KEY.get(key) or _SPELLINGS.get(key)
    if stated is not None:
        return stated
    close = closest_format(row.name, row.quant)
    formats = list(dict.fromkeys([close, published.native, *published.repositories, "BF16", "FP8", "AWQ"]))
    raise Unsupported(
        f"{reference} is a GGUF quant, which vLLM 0.33 does not load without a plugin: name a format it loads, such as "
        f"{row.name}:{close}, or ask for engine.name llama.cpp.",
        suggestions=[f"{row.name}:{each}" for each in formats],
        fields=("model", "engine.name"),
    )


def _refuse_unpublished(scheme: str, published: PublishedModel, called: str) -> None:
    known = (published.native, *published.repositories)
    if scheme in _NATIVE_ONLY and scheme not in known:
        raise Unsupported(
            f"{called} is not published as {scheme}: name {called}:{published.native}.",
            suggestions=[f"{called}:{each}" for each in dict.fromkeys((*known, "FP8", "AWQ"))],
            fields=("model",),
        )
