"""Plans for tests, from the built-in catalogues."""

from functools import cache
from typing import Any

from service.contract.plan import LlamaCppEnginePlan, Plan
from service.contract.validation import validate_request
from service.planning.catalogues import BuiltinCatalogues
from service.planning.planner import Planner


@cache
def builtin_planner() -> Planner:
    """The planner of a test run."""
    return Planner(BuiltinCatalogues(), may_read_files=True)


def ask(model: object, *gpus: object, context_tokens: int | None = None, **parts: Any) -> Plan:
    """Plan a model on cards; parts: other fields of the request, and those of `host`, `rig` and `workload`."""
    workload = dict(parts.pop("workload", {}))
    if context_tokens is not None:
        workload["context_tokens"] = context_tokens
    rig = {"gpus": list(gpus), "host": parts.pop("host", {}), **parts.pop("rig", {})}
    return builtin_planner().plan(validate_request({"model": model, "rig": rig, "workload": workload, **parts}))


def llamacpp(plan: Plan) -> LlamaCppEnginePlan:
    """The engine part of a plan that is llama.cpp's."""
    assert isinstance(plan.engine, LlamaCppEnginePlan)
    return plan.engine
