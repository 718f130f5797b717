"""A question to llama.cpp and one way to answer it: what stays the same over all candidates, and a candidate."""

from dataclasses import dataclass, replace

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.needs import needs_of
from service.core.engines.llamacpp.placement import Placement, place
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.memory import Need, context_ceiling_tokens, shortfall_bytes
from service.core.types import Model, Rig, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What stays the same over all candidates."""

    model: Model
    hp: Hparams
    rig: Rig
    workload: Workload
    may_use_one_card: bool

    def place(self, settings: LlamaCppSettings, context_tokens: int) -> "Choice":
        """Place one candidate."""
        placement = place(self.model, self.rig, settings, replace(self.workload, context_tokens=context_tokens))
        needs = needs_of(self.model, self.hp, self.rig, placement)
        return Choice(question=self, settings=settings, context_tokens=context_tokens, placement=placement, needs=needs)

    def ceiling_tokens(self, settings: LlamaCppSettings) -> int:
        """Context up to which a search goes."""
        streams = 1 if settings.kv_unified else self.workload.parallel
        return context_ceiling_tokens(self.hp.n_ctx_train, streams, self.workload.context_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Settings and context without a gap, where they put the bytes, and what that needs."""

    question: Question
    settings: LlamaCppSettings
    context_tokens: int
    placement: Placement
    needs: tuple[Need, ...]

    @property
    def fits(self) -> bool:
        """Whether every device and the host have room."""
        return shortfall_bytes(self.needs) == 0
