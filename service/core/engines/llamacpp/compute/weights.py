"""A model's weights as graph nodes, by block and by backend, made once per model and place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from service.core.engines.llamacpp.compute.node import WEIGHT, Node, leaf
from service.core.types import Model, Tensor

BLOCK_PREFIX: Final = "blk."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightTable:
    """Tensors of a model by block; `blocks[il]` by the name behind `blk.<il>.`.

    outside: tensors of no block. nodes: those made so far, by (block or -1, name, backend); weights of a graph never
    change, so graphs share them.
    """

    outside: Mapping[str, Tensor]
    blocks: tuple[Mapping[str, Tensor], ...]
    nodes: dict[tuple[int, str, int], Node]

    def node(self, block: int, name: str, backend: int) -> Node | None:
        """The weight `name` of a block (-1: of none) in `backend`'s memory; None where the model has none."""
        key = (block, name, backend)
        found = self.nodes.get(key)
        if found is None:
            tensor = (self.outside if block < 0 else self.blocks[block]).get(name)
            if tensor is None:
                return None
            found = weight_node(tensor, backend)
            self.nodes[key] = found
        return found

    def sites(self) -> Mapping[Node, tuple[int, str]]:
        """Block (-1: none) and name of every weight that was asked for."""
        return {node: (block, name) for (block, name, _), node in list(self.nodes.items())}


def weight_node(tensor: Tensor, backend: int) -> Node:
    """A weight in `backend`'s memory."""
    shape = tensor.shape
    ne = (
        shape[0] if shape else 1,
        shape[1] if len(shape) > 1 else 1,
        shape[2] if len(shape) > 2 else 1,
        shape[3] if len(shape) > 3 else 1,
    )
    node = leaf(tensor.type, ne, buffer=backend, flags=WEIGHT)
    node.seen = True  # never listed as a leaf: it has its memory
    return node


@lru_cache(maxsize=64)
def weight_table(model: Model) -> WeightTable:
    """The model's tensors by block."""
    outside: dict[str, Tensor] = {}
    blocks: dict[int, dict[str, Tensor]] = {}
    for tensor in model.tensors:
        name = tensor.name
        if name.startswith(BLOCK_PREFIX):
            number, _, rest = name[len(BLOCK_PREFIX) :].partition(".")
            if number.isdecimal():
                blocks.setdefault(int(number), {})[rest] = tensor
                continue
        outside[name] = tensor
    count = max(blocks, default=-1) + 1
    return WeightTable(outside=outside, blocks=tuple(blocks.get(il, {}) for il in range(count)), nodes={})
