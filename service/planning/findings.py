"""Everything that is known when an answer is put into words."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.catalog.gpus import GpuCatalog
from service.contract.request import PlanRequest
from service.core.engines.llamacpp.fit import Fit
from service.core.engines.llamacpp.placement import Placement
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.speed import Speed
from service.core.memory import Verdict, verdict
from service.core.model_facts import ModelFacts
from service.core.speed import Assumptions
from service.core.types import Model, Rig


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The question, the choice that answers it, and what that means.

    notes: what was read into the model's name. max_context_tokens: with the choices made. fit: what llama.cpp's own
    --fit did, where it was to choose.
    """

    request: PlanRequest
    notes: Sequence[str]
    gpus: GpuCatalog
    choice: Choice
    facts: ModelFacts
    speed: Speed
    assumptions: Assumptions
    max_context_tokens: int
    fit: Fit | None = None

    @property
    def model(self) -> Model:
        """The model planned."""
        return self.choice.question.model

    @property
    def rig(self) -> Rig:
        """The rig planned for."""
        return self.choice.question.rig

    @property
    def placement(self) -> Placement:
        """Where the bytes are."""
        return self.choice.placement

    @property
    def layers_on_host(self) -> int:
        """Slots that lie on the host although there are cards."""
        first, end = self.placement.slots.range_of(-1)
        return end - first if self.rig.gpus else 0

    @property
    def offloaded(self) -> bool:
        """Whether the host holds part of what cards could hold: layers, experts, single tensors, or the cache.

        Tables that a token looks one row up in, such as the embedding, always lie there.
        """
        host = self.placement.host
        resident_bytes = host.weights.weights_bytes - host.weights.lookup_bytes
        return bool(self.rig.gpus) and (resident_bytes > 0 or host.kv_bytes > 0)

    @property
    def verdict(self) -> Verdict:
        """Whether it fits."""
        return verdict(self.choice.needs, offloaded=self.offloaded)
