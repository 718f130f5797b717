"""The questions of a comparison: every combination of what varies."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, TypeAlias

from service.contract.compare import CompareBase, CompareRequest, RigChoice
from service.contract.model_reference import ModelReference
from service.contract.request import PlanRequest
from service.contract.rig import GpuRequest, RigRequest
from service.contract.validation import validate_request
from service.core.problems import InvalidRequest
from service.planning.engines.vllm.closest import for_engine

MAX_ROWS: Final = 256
"""Plans that one comparison makes: a few seconds' work."""

AXES: Final = ("models", "quants", "rigs", "contexts", "engines")
Axis: TypeAlias = Sequence[object]


def questions_of(request: CompareRequest) -> list[PlanRequest]:
    """One PlanRequest per combination, engines varying fastest.

    Where engines differ, each gets the model in the format it has that is closest to the one named.

    Raises InvalidRequest without a model, with more than MAX_ROWS combinations, for quants of what has no name, and
    where a combination is no question.
    """
    base, models = request.base, _models(request)
    rigs = [_rig(rig, base) for rig in request.rigs or [base.rig]]
    contexts = request.contexts or [base.workload.context_tokens]
    engines = request.engines or [base.engine]
    count = len(models) * len(rigs) * len(contexts) * len(engines)
    if count > MAX_ROWS:
        raise InvalidRequest(
            f"these are {count} combinations and {MAX_ROWS} are compared at once: leave some out",
            fields=varied(request),
        )
    differ = len({engine.name for engine in engines}) > 1
    return [
        validate_request(
            {
                "model": for_engine(model, engine.name) if differ else model,
                "rig": rig,
                "workload": base.workload.model_copy(update={"context_tokens": context}),
                "engine": engine,
                "assumptions": base.assumptions,
            }
        )
        for model, rig, context, engine in product(models, rigs, contexts, engines)
    ]


def varied(request: CompareRequest) -> list[str]:
    """Which parts of the question are varied."""
    return [axis for axis in AXES if getattr(request, axis) is not None]


def _models(request: CompareRequest) -> list[ModelReference]:
    models = request.models or ([] if request.base.model is None else [request.base.model])
    if not models:
        raise InvalidRequest("no model is named: state base.model, or several models", fields=("base.model", "models"))
    if request.quants is None:
        return list(models)
    return list(_with_quants(models, request.quants))


def _with_quants(models: Sequence[ModelReference], quants: Sequence[str]) -> Iterator[ModelReference]:
    for model, quant in product(models, quants):
        if not isinstance(model, str) or model.startswith("sha256:"):
            raise InvalidRequest(
                "quants go with catalogue names, and a file or an id has one quant: leave quants out, or name models",
                fields=("quants",),
            )
        yield f"{model.partition(':')[0]}:{quant}"


def _rig(choice: RigChoice, base: CompareBase) -> RigRequest:
    """A whole rig as it is; cards alone in the machine of the base."""
    if isinstance(choice, RigRequest):
        return choice
    cards: list[str | GpuRequest] = names_of(choice) if isinstance(choice, str) else list(choice)
    return base.rig.model_copy(update={"gpus": cards})


def names_of(text: str) -> list[str | GpuRequest]:
    """Card names between commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
