"""Questions whose graphs are kept, and whether they were built."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from service.core.engines.llamacpp.compute import ComputeBuffers, ComputeQuestion, compute_buffers, reserve
from service.core.problems import PlanProblem
from service.core.types import Model
from tests.core.engines.llamacpp.compute.questions import question
from tests.models import load_model

LLAMA_8B = "llama-3.1-8b:Q4_K_M"
CASES: tuple[dict[str, object], ...] = (
    {"backends": ("cuda", "cuda")},
    {"backends": ("vulkan",), "parallel": 4, "flash_attn": False},
    {"backends": ("cuda",), "on_host": 2, "n_cpu_moe": 2},
)


def asked(context_tokens: int = 8192) -> ComputeQuestion:
    """A question about one model."""
    return question(load_model(LLAMA_8B), backends=("cuda", "cuda"), context_tokens=context_tokens)


def buffers(model: Model, case: dict[str, object], context_tokens: int) -> ComputeBuffers | None:
    """The buffers of a model in a case; None where llama.cpp refuses."""
    try:
        return compute_buffers(question(model, context_tokens=context_tokens, **case))  # type: ignore[arg-type]
    except PlanProblem:
        return None


@contextmanager
def nothing_is_built() -> Iterator[None]:
    """Fail where a graph is built inside."""

    def built(*_: object, **__: object) -> None:
        raise AssertionError("a graph was built")

    with patch.object(reserve, "graph_memory", built):
        yield
