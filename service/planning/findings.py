"""Everything that is known when an answer is put into words."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from service.catalog.gpus import GpuCatalog
from service.contract.request import PlanRequest
from service.core.engines.llamacpp.companions import Companions
from service.core.engines.llamacpp.fit import Fit
from service.core.engines.llamacpp.placed import CompanionBytes, HostPlacement
from service.core.engines.llamacpp.placement import Placement
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.search.rivals import Rival
from service.core.engines.llamacpp.speed import Speed
from service.core.memory import Verdict, verdict
from service.core.model_facts import ModelFacts
from service.core.speed import Assumptions
from service.core.types import Model, Rig


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The question, the choice that answers it, and what that means.

    notes: what was read into the model's name. companion_notes: what was read into those of a draft or a projector,
    by field. max_context_tokens: with the choices made. offloaded: whether the host holds what cards could hold.
    fit: what llama.cpp's own --fit did, where it was to choose. rivals: choices that this one is compared with. model,
    rig, companions, placement: of the choice. busy: cards that hold weights, by position.
    """

    request: PlanRequest
    notes: Sequence[str]
    companion_notes: Sequence[tuple[str, str]] = ()
    gpus: GpuCatalog
    choice: Choice
    facts: ModelFacts
    speed: Speed
    assumptions: Assumptions
    max_context_tokens: int
    offloaded: bool
    fit: Fit | None = None
    rivals: Sequence[Rival] = ()
    model: Model = field(init=False)
    rig: Rig = field(init=False)
    companions: Companions = field(init=False)
    placement: Placement = field(init=False)
    busy: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        choice, question = self.choice, self.choice.question
        for name, part in (
            ("model", question.model),
            ("rig", question.rig),
            ("companions", question.companions),
            ("placement", choice.placement),
            ("busy", choice.placement.loaded.busy),
        ):
            object.__setattr__(self, name, part)

    @property
    def layers_on_host(self) -> int:
        """Slots that lie on the host although there are cards."""
        first, end = self.placement.slots.range_of(-1)
        return end - first if self.rig.gpus else 0

    @property
    def verdict(self) -> Verdict:
        """Whether it fits."""
        return verdict(self.choice.needs, offloaded=self.offloaded)


def is_offloaded(choice: Choice) -> bool:
    """Whether the host holds part of what cards could hold: layers, experts, single tensors, caches, companions.

    Tables that a token looks one row up in, such as the embedding, always lie there.
    """
    parts: list[HostPlacement | CompanionBytes] = [choice.placement.host]
    parts += [companion.host for companion in choice.placement.companions]
    resident_bytes = sum(part.weights.weights_bytes - part.weights.lookup_bytes + part.kv_bytes for part in parts)
    return bool(choice.question.rig.gpus) and resident_bytes > 0
