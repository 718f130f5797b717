"""Models of the catalogue as vLLM loads them, for tests."""

from functools import cache

from service.catalog.vllm_models import published_model
from service.core.engines.vllm.derived import derived_model
from service.core.engines.vllm.layer_sums import layer_sums
from service.core.engines.vllm.model import VllmModel
from service.core.engines.vllm.weights import Sharding
from service.core.types import Gpu
from service.core.units import GIB
from tests.planner import builtin_planner


@cache
def checkpoint(name: str, scheme: str = "BF16") -> VllmModel:
    """A model in a format."""
    models = builtin_planner().catalogues.models
    return derived_model(models.model(models.resolve(name).row), scheme, published_model(name).extras)


def card(slug: str) -> Gpu:
    """A card of the catalogue."""
    return builtin_planner().catalogues.gpus.gpus(slug)[0]


def rank_gib(name: str, scheme: str, tensor_parallel: int, *, expert_parallel: int = 0) -> float:
    """Weights of one rank in GiB, of a model in one stage."""
    model = checkpoint(name, scheme)
    sharding = Sharding(
        tensor_parallel=tensor_parallel,
        expert_parallel=expert_parallel,
        expert_tensor_parallel=tensor_parallel,
        capability=(8, 6),
    )
    return layer_sums(model, sharding).stage(range(len(model.layers))).allocated_bytes / GIB
