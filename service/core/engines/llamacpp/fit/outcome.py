"""What llama.cpp's own fit settles on: `fit` puts its steps together."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from service.core.engines.llamacpp.fit.arguments import fit_arguments, layers_argument
from service.core.engines.llamacpp.fit.context import FittedContext, fitted_context
from service.core.engines.llamacpp.fit.filling import filled, surplus_without_experts
from service.core.engines.llamacpp.fit.layers import Layout, settings_of
from service.core.engines.llamacpp.fit.question import FitQuestion, fit_question
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.types import Model, Rig, Workload

Outcome = Literal["as_it_is", "context", "layers", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What the model is then loaded with.

    outcome: nothing had to change, the context did, layers as well, or it failed and only the context may have changed.
    settings: with n_gpu_layers, shares and overrides filled in. arguments: the same as llama-fit-params prints it.
    surplus_bytes: what all devices together have to spare with every expert on the host, where that was looked at.
    layout: layers per device, where they were counted. failure: llama.cpp's own words.
    """

    question: FitQuestion
    context: FittedContext
    outcome: Outcome
    settings: LlamaCppSettings
    arguments: tuple[str, ...]
    surplus_bytes: int | None = None
    layout: Layout | None = None
    failure: str | None = None

    @property
    def context_tokens(self) -> int:
        """Context of all streams."""
        return self.context.context_tokens


def fit(model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload) -> Fit:
    """Fit what `settings` and `workload` leave open, as llama.cpp does with its default margins; memoised.

    It measures as llama-fit-params does, which reserves logits of a whole ubatch; llama-server's own fit reserves those
    of its streams.
    Raises as `fit_question` and `place` do.
    Source: common_fit_params, common/fit.cpp:178-940 (llama.cpp in llama-cpp-python 0.3.36).
    """
    return _fit(model, rig, settings, workload.context_tokens, workload.parallel)


@lru_cache(maxsize=1024)
def _fit(model: Model, rig: Rig, settings: LlamaCppSettings, context_tokens: int | None, parallel: int) -> Fit:
    workload = Workload(context_tokens=context_tokens, parallel=parallel)
    question = fit_question(model, rig, settings, workload)
    context = fitted_context(question)
    kept = replace(settings, n_gpu_layers="all" if settings.n_gpu_layers is None else settings.n_gpu_layers)
    unchanged = Fit(
        question=question,
        context=context,
        outcome="as_it_is" if context.context_tokens == context.start_tokens else "context",
        settings=kept,
        arguments=fit_arguments(question, settings, context.context_tokens),
    )
    if context.done:
        return unchanged
    failure = refusal(question)
    if failure is not None:
        return replace(unchanged, outcome="failed", failure=failure)
    surplus_bytes = surplus_without_experts(question, context.context_tokens)
    layout = filled(question, context.context_tokens, surplus_bytes)
    found = settings_of(question, layout)
    return Fit(
        question=question,
        context=context,
        outcome="layers",
        settings=found,
        arguments=fit_arguments(question, found, context.context_tokens),
        surplus_bytes=surplus_bytes,
        layout=layout,
    )


def refusal(question: FitQuestion) -> str | None:
    """Why fit gives up rather than move layers, in its own words; a context that was reduced before stays reduced.

    Source: common/fit.cpp:456-483 (llama.cpp in llama-cpp-python 0.3.36).
    """
    settings = question.settings
    if not question.devices:
        return "was unable to fit model into system memory by reducing context, abort"
    if settings.n_gpu_layers is not None:
        return f"n_gpu_layers already set by user to {layers_argument(settings)}, abort"
    if len(question.devices) > 1:
        if any(settings.tensor_split or ()):
            return "model_params::tensor_split already set by user, abort"
        if settings.split_mode == "row":
            return "changing weight allocation for LLAMA_SPLIT_MODE_ROW not implemented, abort"
    if settings.override_tensor or settings.n_cpu_moe:
        return "model_params::tensor_buft_overrides already set by user, abort"
    return None
