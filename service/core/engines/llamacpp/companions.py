"""What runs beside a model: a draft model, the model's own draft layers, a projector for images or sound."""

from dataclasses import dataclass
from typing import Final

from service.core.architectures.architecture import SpecType
from service.core.engines.llamacpp.drafts import FIELD, OWN_DRAFT_LAYERS
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import Rule, version_rules
from service.core.problems import Contradiction, Unsupported
from service.core.timing.speculation import ASSUMED_ACCEPTANCE_FRACTION
from service.core.types import Model

DEFAULT_DRAFT_TOKENS: Final = 3
"""Tokens a draft proposes per step unless told otherwise (--spec-draft-n-max, common/common.h:328)."""

AS_THE_TARGET: Final = LlamaCppSettings()
"""Settings of a draft that says nothing of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Speculation: a draft model, or the model's own draft (MTP) layers where `model` is None.

    n_max: tokens proposed per step. acceptance_fraction: probability that a proposed token is accepted where all
    before it were, None for what is assumed. settings: of the draft, where they are its own: types of its cache and, of
    a draft model, layers on the cards and what goes elsewhere.
    """

    model: Model | None = None
    spec_type: SpecType
    n_max: int = DEFAULT_DRAFT_TOKENS
    acceptance_fraction: float | None = None
    settings: LlamaCppSettings = AS_THE_TARGET

    @property
    def accepted_fraction(self) -> float:
        """The acceptance that is stated, else the one that is assumed."""
        return ASSUMED_ACCEPTANCE_FRACTION if self.acceptance_fraction is None else self.acceptance_fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Projector:
    """A projector (mmproj): its file, or its bytes where only those are known; on_host is --no-mmproj-offload."""

    model: Model | None = None
    weights_bytes: int = 0
    on_host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Companions:
    """What runs beside the model."""

    draft: Draft | None = None
    projector: Projector | None = None

    @property
    def load_mtp(self) -> bool:
        """Whether the model's own draft layers are loaded.

        Source: common_model_params_to_llama, common/common.cpp:1625 (llama.cpp in llama-cpp-python 0.3.36).
        """
        return self.draft is not None and self.draft.spec_type == OWN_DRAFT_LAYERS


ALONE: Final = Companions()
"""Nothing beside the model."""


def check_companions(companions: Companions, settings: LlamaCppSettings) -> None:
    """Refuse what the tool or the version does not run beside a model.

    Source: tools/llama-bench/llama-bench.cpp, which has no such flag (llama.cpp in llama-cpp-python 0.3.36); pull
    requests 12898, 22673 and 22964.
    """
    rules = version_rules(settings.version, settings.date)
    given: tuple[tuple[Draft | Projector | None, str, Rule, str], ...] = (
        (companions.draft, FIELD, "draft_contexts", "mid May 2026"),
        (companions.projector, "engine.mmproj", "server_projector", "May 2025"),
    )
    for companion, field, rule, since in given:
        if companion is not None and settings.tool != "llama-server":
            raise Contradiction(
                f"{settings.tool} runs nothing beside the model: leave {field} null, or ask for llama-server",
                fields=(field, "engine.tool"),
            )
        if companion is not None and not rules.has(rule):
            raise Unsupported(
                f"{field} is planned as llama.cpp works since {since}, and this one is of {rules.as_of}: name a later "
                "build or date",
                fields=(field, "engine.version", "engine.date"),
            )
