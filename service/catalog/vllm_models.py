"""What model_db/vllm.toml says of models: the formats their checkpoints are published in, and what comes with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import tomli

from service.builtin import builtin_folder
from service.catalog.model_names import vocabulary
from service.core.engines.vllm.extras import NO_EXTRAS, Extras
from service.core.engines.vllm.model import Vision

DEFAULT_FORMAT = "BF16"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedModel:
    """One model: the format its maker publishes, where each format is, and what its language model does not show.

    shapes: the model of model_db whose header has its shapes, where it has none of its own; trained_context_tokens:
    where that differs. aliases: formats that its maker calls otherwise.
    """

    name: str = ""
    native: str = DEFAULT_FORMAT
    repositories: Mapping[str, str]
    extras: Extras = NO_EXTRAS
    encoder: str | None = None
    aliases: Mapping[str, str]
    shapes: str | None = None
    trained_context_tokens: int | None = None


_UNKNOWN = PublishedModel(repositories={}, aliases={})


@cache
def published_models() -> Mapping[str, PublishedModel]:
    """Every model of the file, by its name in model_db; read once."""
    table = tomli.loads((builtin_folder("model_db") / "vllm.toml").read_text("utf-8"))
    encoders = {row["name"]: row for row in table["encoder"]}
    return {name: _model(name, row, encoders) for row in table["model"] for name in row["names"]}


def published_model(name: str | None) -> PublishedModel:
    """What is known of a model; nothing but the usual for one that is not listed."""
    return published_models().get(name or "", _UNKNOWN)


def model_with_shapes_of_another(name: str) -> PublishedModel | None:
    """A model that only this file lists, by the words of its name; None where there is none."""
    wanted = vocabulary().telling(name)
    others = (each for each in published_models().values() if each.shapes is not None)
    return next((each for each in others if vocabulary().telling(each.name) == wanted), None)


def _model(name: str, row: Mapping[str, Any], encoders: Mapping[str, Mapping[str, Any]]) -> PublishedModel:
    encoder = row.get("encoder")
    return PublishedModel(
        name=name,
        shapes=row.get("shapes"),
        aliases=row.get("aliases", {}),
        trained_context_tokens=row.get("trained_context_tokens"),
        native=row.get("native", DEFAULT_FORMAT),
        repositories={each: repository.format(name=name) for each, repository in row.get("repositories", {}).items()},
        extras=Extras(
            vision=None if encoder is None else _vision(encoders[encoder]),
            rotary_factor=row.get("rotary_factor", 1.0),
            has_window_rotary=row.get("window_rotary", False),
        ),
        encoder=encoder,
    )


def _vision(row: Mapping[str, Any]) -> Vision:
    width = row["hidden_size"]
    return Vision(
        layers=row["layers"],
        hidden_size=width,
        ff_rows=row["ff_rows"],
        heads=row["heads"],
        patches=row["patches"],
        merged_columns=row["merged_columns"],
        merged_rows=row["merged_rows"],
        other_elements=width * (row["patch_elements"] + row["positions"]),
    )
