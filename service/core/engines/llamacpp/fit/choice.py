"""A fit as a choice among others: placed and weighed by the same rules."""

from service.core.engines.llamacpp.fit.outcome import Fit
from service.core.engines.llamacpp.question import Choice, Question
from service.core.types import Workload


def fitted_choice(fit: Fit, workload: Workload) -> Choice:
    """Where the bytes lie once llama.cpp loads the model with what the fit settled on; raises as `place` does."""
    question = Question.of(fit.question.model, fit.question.rig, workload)
    return question.place(fit.settings, fit.context_tokens)
