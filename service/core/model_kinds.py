"""What a GGUF file is: a model to run, something that runs beside one, or neither."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from service.core.problems import Unsupported
from service.core.types import MetadataValue, Model

ModelKind: TypeAlias = Literal["model", "mmproj", "lora", "control-vector", "imatrix", "vocabulary", "diffusion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFacts:
    """What files of one kind are, and why they are not planned; None where they are."""

    what: str
    not_planned: str | None = None


KINDS: Mapping[ModelKind, KindFacts] = MappingProxyType(
    {
        "model": KindFacts(what="a language model"),
        "mmproj": KindFacts(
            what="a projector that turns images or sound into embeddings (mmproj)",
            not_planned="plan the language model it belongs to and give this file as engine.mmproj",
        ),
        "lora": KindFacts(
            what="a LoRA adapter, which changes the weights of another model",
            not_planned="plan the model it was trained for",
        ),
        "control-vector": KindFacts(
            what="a control vector, which steers another model", not_planned="plan the model it steers"
        ),
        "imatrix": KindFacts(
            what="an importance matrix, which guides the quantisation of a model",
            not_planned="plan the quantised model",
        ),
        "vocabulary": KindFacts(what="a vocabulary without weights", not_planned="plan a model that has weights"),
        "diffusion": KindFacts(
            what="a diffusion model for images or video, which llama.cpp does not run",
            not_planned="run it with an engine for diffusion models, such as stable-diffusion.cpp or ComfyUI",
        ),
    }
)

_DIFFUSION_ARCHITECTURES = frozenset(
    {"aura", "cosmos", "flux", "hidream", "hyvid", "ltxv", "lumina2", "qwen_image", "sd1", "sd3", "sdxl", "wan"}
)
"""Source: IMG_ARCH_LIST, city96/ComfyUI-GGUF, loader.py (2025)."""

# stable-diffusion.cpp writes no architecture and names tensors as checkpoints of Stable Diffusion do
_DIFFUSION_TENSORS = "model.diffusion_model."


def implied_architecture(metadata: Mapping[str, MetadataValue], tensor_names: Iterable[str]) -> str | None:
    """What stands for `general.architecture` in files that rightly have none; None where nothing does.

    Source: IMatrixCollector::save_imatrix, tools/imatrix/imatrix.cpp:603 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if metadata.get("general.type") == "imatrix":
        return "imatrix"
    if any(name.startswith(_DIFFUSION_TENSORS) for name in tensor_names):
        return "diffusion"
    return None


def model_kind(model: Model) -> ModelKind:
    """The kind of a file, from what it says of itself.

    Source: general.type of GGUFType, gguf-py/gguf/constants.py:487-495; llama_adapter_lora_init_impl,
    src/llama-adapter.cpp:200-220; common_control_vector_load_one, common/common.cpp (llama.cpp in llama-cpp-python
    0.3.36).
    """
    stated, architecture = model.metadata.get("general.type"), model.architecture
    if stated == "imatrix":
        return "imatrix"
    if architecture == "clip" or stated == "mmproj":
        return "mmproj"
    if stated == "adapter":
        return "lora"
    if architecture == "controlvector":
        return "control-vector"
    if architecture in _DIFFUSION_ARCHITECTURES or architecture == "diffusion":
        return "diffusion"
    if not model.tensors and "tokenizer.ggml.model" in model.metadata:
        return "vocabulary"
    return "model"


def refuse_unplanned_kind(model: Model) -> None:
    """Raise Unsupported for a file that is no model to run, saying what it is and what to do instead."""
    kind = KINDS[model_kind(model)]
    if kind.not_planned is not None:
        raise Unsupported(f"This file is {kind.what}: {kind.not_planned}.", fields=("model",))
