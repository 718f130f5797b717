"""Models to bring into the catalogue, and what a repository offers."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from service.contract.quantities import ANSWER, REQUEST, Text, Url

EXAMPLE_IMPORT: dict[str, JsonValue] = {
    "repo": "bartowski/Llama-3.2-1B-Instruct-GGUF",
    "file": "Llama-3.2-1B-Instruct-Q4_K_M.gguf",
}


# what `ImportRequest` checks of its fields together, for those who read its schema alone
_ABSENT: dict[str, JsonValue] = {"type": "null"}
_ONE_SOURCE: list[JsonValue] = [
    {
        "required": ["url"],
        "properties": {"url": {"type": "string"}, "repo": _ABSENT, "file": _ABSENT, "revision": _ABSENT},
    },
    {"required": ["repo"], "properties": {"repo": {"type": "string"}, "url": _ABSENT}},
]


class ImportRequest(BaseModel):
    """A model of another host: an address, or a repository and one of its files."""

    model_config = ConfigDict(**REQUEST, json_schema_extra={"examples": [EXAMPLE_IMPORT], "oneOf": _ONE_SOURCE})

    url: Url | None = Field(
        None,
        description="Address of a GGUF file or a config.json, or a name: `hf.co/owner/repo:quant`, "
        "`modelscope.cn/owner/repo:quant`, `ollama.com/library/name:tag`.",
        examples=["hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M"],
    )
    repo: Text | None = Field(
        None,
        description="Repository `owner/name` of Hugging Face, `modelscope.cn/owner/name` or a name of Ollama's "
        "library; `:quant` or `:tag` may follow. A repository with neither that nor `file` is listed.",
        examples=["bartowski/Llama-3.2-1B-Instruct-GGUF"],
    )
    file: Text | None = Field(
        None,
        description="A GGUF file of the repository, any part of a split one, or config.json for its checkpoint.",
        examples=["Llama-3.2-1B-Instruct-Q4_K_M.gguf"],
    )
    revision: Text | None = Field(None, description="Branch, tag or commit of the repository.", examples=["main"])
    alias: Text | None = Field(None, description="Another name for the model.", examples=["team/assistant"])

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.url is None) == (self.repo is None):
            raise ValueError("must have either url or repo")
        if self.repo is None and (self.file is not None or self.revision is not None):
            raise ValueError("file and revision belong to repo")
        return self


class ModelEdit(BaseModel):
    """What is changed about a model; what is left out stays."""

    model_config = ConfigDict(**REQUEST, json_schema_extra={"examples": [{"aliases": ["team/assistant"]}]})

    name: Annotated[str, Field(strict=True, pattern=r"^[a-z0-9][a-z0-9._-]{0,199}$")] | None = Field(
        None, description="Another name for a model that was brought in.", examples=["house-8b"]
    )
    aliases: Annotated[list[Text], Field(max_length=32)] | None = Field(
        None, description="All its aliases from now on.", examples=[["team/assistant"]]
    )

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.name is None and self.aliases is None:
            raise ValueError("must have name or aliases")
        return self


class RepositoryModel(BaseModel):
    """A model of a repository, all parts of a split one together."""

    model_config = ANSWER

    file: str = Field(description="What to give as `file`.", examples=["Llama-3.2-1B-Instruct-Q4_K_M.gguf"])
    size_bytes: int = Field(examples=[807694464])
    parts: int = Field(description="Files it is split into.")
    missing: list[str] = Field(description="Parts that the repository lacks.")


class RepositoryListing(BaseModel):
    """What a repository offers, to choose from; nothing was read yet."""

    model_config = ANSWER

    repo: str = Field(examples=["bartowski/Llama-3.2-1B-Instruct-GGUF"])
    files: list[RepositoryModel]
