"""How a request names a model: by its catalogue name, by an address, or by a file of this computer."""

from typing import Annotated, TypeAlias

from pydantic import BaseModel, Discriminator, Field, Tag

from service.contract.quantities import REQUEST, Text, Url

_HOSTS = ("hf.co/", "huggingface.co/", "modelscope.cn/", "ollama.com/")


class ModelUrl(BaseModel):
    """A GGUF file at an address; its header is read and not kept."""

    model_config = REQUEST

    url: Url = Field(
        description="Address of a GGUF file, or a name such as `hf.co/owner/repo:quant`.",
        examples=["https://models.example/model.gguf"],
    )


class ModelPath(BaseModel):
    """A GGUF file on this computer; for the command line only."""

    model_config = REQUEST

    path: Text = Field(description="Path of a GGUF file.", examples=["models/llama.gguf"])


def _model_kind(value: object) -> str:
    if isinstance(value, str):
        return "<name>"
    if isinstance(value, ModelPath) or (isinstance(value, dict) and "path" in value):
        return "<path>"
    return "<url>"


ModelReference: TypeAlias = Annotated[
    Annotated[Text, Tag("<name>")] | Annotated[ModelUrl, Tag("<url>")] | Annotated[ModelPath, Tag("<path>")],
    Discriminator(_model_kind),
]


def is_address(text: str) -> bool:
    """Whether a text names a model at another host rather than one of the catalogue."""
    return "://" in text or text.startswith(_HOSTS)
