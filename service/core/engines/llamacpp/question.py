"""A question to llama.cpp and one way to answer it: what stays the same over all candidates, and a candidate."""

from dataclasses import dataclass, replace
from functools import cached_property

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.engines.llamacpp.companion_placement import place_with, without_companions
from service.core.engines.llamacpp.companions import ALONE, Companions
from service.core.engines.llamacpp.needs import needs_of
from service.core.engines.llamacpp.placement import Placement
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.memory import Need, context_ceiling_tokens, shortfall_bytes
from service.core.types import Model, Rig, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What stays the same over all candidates.

    may_balance, may_use_one_card: whether a balanced split, or one card alone, may stand in for llama.cpp's own split.
    """

    model: Model
    hp: Hparams
    rig: Rig
    workload: Workload
    may_balance: bool = False
    may_use_one_card: bool = False
    companions: Companions = ALONE

    @classmethod
    def of(
        cls,
        model: Model,
        rig: Rig,
        workload: Workload,
        companions: Companions = ALONE,
        *,
        may_balance: bool = False,
        may_use_one_card: bool = False,
    ) -> "Question":
        """Question about a model."""
        return cls(
            model=model,
            hp=read_hparams(model),
            rig=rig,
            workload=workload,
            companions=companions,
            may_balance=may_balance,
            may_use_one_card=may_use_one_card,
        )

    def place(self, settings: LlamaCppSettings, context_tokens: int) -> "Choice":
        """Place one candidate, without a pipeline where only its copies of the inputs are too much for the model.

        Source: src/llama-context.cpp:676-687 (llama.cpp in llama-cpp-python 0.3.36).
        """
        choice = self.placed(settings, context_tokens)
        if (
            choice.fits
            or not choice.placement.pipeline_parallel
            or choice.fits_alone
            or not choice.fits_without_compute
        ):
            return choice
        plain = self.placed(settings, context_tokens, may_pipeline=False)
        return replace(plain, fell_back=True) if plain.fits else choice

    def hold(self, settings: LlamaCppSettings, context_tokens: int) -> "Choice":
        """One candidate without compute buffers: where that does not fit, `place` does not, and it needs no graph."""
        return self.placed(settings, context_tokens, with_compute=False)

    def placed(
        self, settings: LlamaCppSettings, context_tokens: int, *, may_pipeline: bool = True, with_compute: bool = True
    ) -> "Choice":
        """Place one candidate, with a pipeline or without, with compute buffers or without."""
        workload = Workload(context_tokens=context_tokens, parallel=self.workload.parallel)
        placement = place_with(
            self.model,
            self.rig,
            settings,
            workload,
            self.companions,
            may_pipeline=may_pipeline,
            with_compute=with_compute,
        )
        needs = needs_of(self.model, self.hp, self.rig, placement)
        return Choice(question=self, settings=settings, context_tokens=context_tokens, placement=placement, needs=needs)

    def ceiling_tokens(self, settings: LlamaCppSettings) -> int:
        """Context up to which a search goes."""
        streams = 1 if settings.kv_unified else self.workload.parallel
        return context_ceiling_tokens(self.hp.n_ctx_train, streams, self.workload.context_tokens)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Settings and context without a gap, where they put the bytes, and what that needs.

    fell_back: the compute buffers of a pipeline did not fit, those without did.
    """

    question: Question
    settings: LlamaCppSettings
    context_tokens: int
    placement: Placement
    needs: tuple[Need, ...]
    fell_back: bool = False

    def alone(self) -> "Choice":
        """The same without what runs beside the model."""
        if self.question.companions == ALONE:
            return self
        question = replace(self.question, companions=ALONE)
        return question.placed(self.settings, self.context_tokens, may_pipeline=self.placement.pipeline_parallel)

    @property
    def fits_alone(self) -> bool:
        """Whether it is only what runs beside the model that does not fit."""
        if not self.placement.companions:
            return self.fits
        question, placement = self.question, without_companions(self.placement)
        return shortfall_bytes(needs_of(question.model, question.hp, question.rig, placement)) == 0

    @cached_property
    def fits(self) -> bool:
        """Whether every device and the host have room."""
        return shortfall_bytes(self.needs) == 0

    def fits_with(self, spare_bytes: int) -> bool:
        """Whether it fits and so much is left on every card that holds weights."""
        return self.fits and not any(
            need.usable_bytes is not None
            and device.weights_bytes
            and need.total_bytes + spare_bytes > need.usable_bytes
            for need, device in zip(self.needs, self.placement.devices, strict=False)
        )

    @property
    def fits_without_compute(self) -> bool:
        """Whether every device has room for all but its compute buffer."""
        return all(
            need.total_bytes - device.compute_bytes <= need.usable_bytes
            for need, device in zip(self.needs, self.placement.devices, strict=False)
            if need.usable_bytes is not None
        )
