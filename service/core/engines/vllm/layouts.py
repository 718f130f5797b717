"""Ways to lay a model over a rig's cards: those the request allows and vLLM accepts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.core.engines.vllm.model import VllmModel
from service.core.engines.vllm.refusals import possible_tensor_parallel, tensor_parallel_refusal
from service.core.engines.vllm.settings import VllmSettings
from service.core.problems import Contradiction, Unsupported
from service.core.types import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a deployment and the cards it takes."""

    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    cards: tuple[int, ...]

    @property
    def world(self) -> int:
        """Workers of all replicas."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel


def shapes(model: VllmModel, gpus: Sequence[Gpu], settings: VllmSettings, streams: int) -> list[Shape]:
    """Every shape that is allowed, at least one.

    Raises Unsupported or Contradiction where what is stated leaves none.
    """
    _refuse_stated(model, gpus, settings)
    found = [shape for shape in _all(model, gpus, settings, streams) if _allowed(shape, settings)]
    if not found:
        raise Contradiction(
            f"No way to run {model.name} on these {len(gpus)} cards has the sizes stated: leave one of "
            "tensor_parallel_size, pipeline_parallel_size and data_parallel_size null.",
            fields=("engine.tensor_parallel_size", "engine.pipeline_parallel_size"),
        )
    return found


def _all(model: VllmModel, gpus: Sequence[Gpu], settings: VllmSettings, streams: int) -> Iterator[Shape]:
    most = len(gpus)
    sizes = possible_tensor_parallel(model, most, expert_parallel=settings.enable_expert_parallel)
    largest_first = _by_size(gpus)
    for tp in sizes:
        for pp in range(1, min(most // tp, len(model.layers)) + 1):
            for dp in range(1, most // (tp * pp) + 1):
                if dp > 1 and settings.data_parallel_size is None and (streams < dp or not _are_alike(gpus)):
                    continue
                yield Shape(
                    tensor_parallel=tp,
                    pipeline_parallel=pp,
                    data_parallel=dp,
                    cards=_cards(gpus, largest_first, tp * pp * dp, settings),
                )


def _cards(gpus: Sequence[Gpu], largest_first: Sequence[int], count: int, settings: VllmSettings) -> tuple[int, ...]:
    """Cards in the rig's order: the first ones where the partition is stated, else the largest."""
    if settings.pp_layer_partition is not None or count == len(gpus):
        return tuple(range(count))
    return tuple(sorted(largest_first[:count]))


def _by_size(gpus: Sequence[Gpu]) -> list[int]:
    """Cards by memory and then bandwidth, the largest first."""
    return sorted(
        range(len(gpus)), key=lambda card: (-gpus[card].total_bytes, -(gpus[card].bandwidth_bytes_per_s or 0))
    )


def _are_alike(gpus: Sequence[Gpu]) -> bool:
    return len({gpu.slug for gpu in gpus}) == 1


def _allowed(shape: Shape, settings: VllmSettings) -> bool:
    return (
        settings.tensor_parallel_size in (None, shape.tensor_parallel)
        and settings.pipeline_parallel_size in (None, shape.pipeline_parallel)
        and settings.data_parallel_size in (None, shape.data_parallel)
        and (settings.pp_layer_partition is None or len(settings.pp_layer_partition) == shape.pipeline_parallel)
    )


def _refuse_stated(model: VllmModel, gpus: Sequence[Gpu], settings: VllmSettings) -> None:
    """Refuse what vLLM's own checks refuse.

    Source: config/parallel.py:1065-1077; distributed/utils.py:198-240 (0.33.0).
    """
    tp, pp = settings.tensor_parallel_size or 1, settings.pipeline_parallel_size or 1
    world = tp * pp * (settings.data_parallel_size or 1)
    if world > len(gpus):
        raise Contradiction(
            f"World size ({world}) is larger than the number of available GPUs ({len(gpus)}) in this node: lower "
            "tensor_parallel_size, pipeline_parallel_size or data_parallel_size, or add cards.",
            fields=("engine.tensor_parallel_size", "engine.pipeline_parallel_size", "rig.gpus"),
        )
    reason = tensor_parallel_refusal(model, tp, expert_parallel=settings.enable_expert_parallel)
    if reason is not None:
        sizes = possible_tensor_parallel(model, len(gpus), expert_parallel=settings.enable_expert_parallel)
        raise Unsupported(
            f"{reason} {model.name} can be divided over {', '.join(map(str, sizes))} of these cards by tensor "
            "parallel; other numbers of cards work as pipeline_parallel_size.",
            suggestions=[str(size) for size in sizes],
            fields=("engine.tensor_parallel_size",),
        )
    _refuse_partition(model, settings)


def _refuse_partition(model: VllmModel, settings: VllmSettings) -> None:
    partition, layers = settings.pp_layer_partition, len(model.layers)
    if partition is None:
        if (settings.pipeline_parallel_size or 1) > layers:
            raise Contradiction(
                f"{layers} layers cannot fill {settings.pipeline_parallel_size} pipeline stages.",
                fields=("engine.pipeline_parallel_size",),
            )
        return
    if settings.pipeline_parallel_size not in (None, len(partition)):
        raise Contradiction(
            f"len(partitions)={len(partition)} does not match pp_size={settings.pipeline_parallel_size}.",
            fields=("engine.pp_layer_partition", "engine.pipeline_parallel_size"),
        )
    if sum(partition) != layers:
        raise Contradiction(
            f"sum(partitions)={sum(partition)} does not match num_hidden_layers={layers}.",
            fields=("engine.pp_layer_partition",),
        )
