"""Models that differ only in how their matrices are quantised have the same graphs, so one stands for all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from functools import lru_cache
from operator import itemgetter
from typing import Final

from service.core.types import LongArray, Model

_MAX_SHAPES: Final = 256
_FIRST_OF_SHAPE: Final[OrderedDict[Hashable, Model]] = OrderedDict()


@lru_cache(maxsize=256)
def shape_twin(model: Model) -> Model:
    """The first model seen with the metadata and tensor shapes of `model`."""
    twin = _FIRST_OF_SHAPE.setdefault(model_description(model, typed=False), model)
    if len(_FIRST_OF_SHAPE) > _MAX_SHAPES:
        _FIRST_OF_SHAPE.popitem(last=False)
    return twin


def model_description(model: Model, *, typed: bool) -> tuple[Hashable, ...]:
    """Everything in a model that its graphs depend on, where types of tensors matter and where they do not.

    Results of operations on matrices do not depend on how these are stored; tensors that are F32 in one and not in the
    other keep models apart, because operations may work on such tensors themselves.
    """
    prefix = model.architecture + "."
    return (
        model.architecture,
        tuple(
            [
                (name, value)
                for name, value in sorted(model.metadata.items(), key=itemgetter(0))
                if name.startswith(prefix) or type(value) is LongArray
            ]
        ),
        tuple(
            [(tensor.name, tensor.shape, tensor.type.id if typed else tensor.type.id == 0) for tensor in model.tensors]
        ),
    )
