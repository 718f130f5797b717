"""Copies of weights in graphs whose blocks stand for others, which have the same weights in other types.

Mixes of quantisations differ from block to block, and devices that compute with weights of the host copy these.
Nothing but the size of such a copy depends on a quantised type.

Source: what a split copies, ggml_backend_sched_split_graph, ggml/src/ggml-backend.cpp:1371-1407 (llama.cpp in
llama-cpp-python 0.3.36).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.core.engines.llamacpp.buffer_types import BufferRules
from service.core.engines.llamacpp.compute.node import WEIGHT, Node
from service.core.engines.llamacpp.compute.schedule import Split
from service.core.engines.llamacpp.compute.sections import Sections
from service.core.engines.llamacpp.compute.weights import WeightTable


class UnknownWeightError(Exception):
    """A copy of a quantised weight that is not one of the model's as they are in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightCopy:
    """A piece of memory for a copy of a weight.

    rules: of the buffer. blocks_before: how many blocks before the one in whose section it is the weight belongs to.
    """

    table: WeightTable
    name: str
    rules: BufferRules
    blocks_before: int

    def bytes_in(self, block: int) -> int:
        """Bytes of the copy that stands in its place in the section of a block."""
        node = self.table.node(block - self.blocks_before, self.name, 0)
        if node is None:
            raise UnknownWeightError
        return self.rules.allocated_bytes(node.type, node.ne[0], node.size)


def weight_copies(
    splits: Iterable[Split], built: Sections, layers: Sequence[int], table: WeightTable, rules: Sequence[BufferRules]
) -> Mapping[int, WeightCopy]:
    """Pieces that are copies of quantised weights of blocks; layers: the blocks that are built; rules: of the buffers.

    Raises UnknownWeightError for a copy of something made of such a weight.
    """
    sources = {copy: source for part in splits for source, copy in part.copied if is_quantised_weight(source)}
    if not sources:
        return {}
    sites = table.sites()
    sections = {il: section for section, il in enumerate(layers, 1)}
    found: dict[int, WeightCopy] = {}
    for section, pieces in enumerate(built.pieces):
        for piece in pieces:
            copy = built.nodes[piece]
            if copy in sources:
                block, name = sites.get(sources[copy], (None, ""))
                if block is None:
                    raise UnknownWeightError
                if block >= 0:
                    found[piece] = WeightCopy(
                        table=table, name=name, rules=rules[copy.place], blocks_before=section - sections[block]
                    )
    return found


def is_quantised_weight(node: Node) -> bool:
    """Whether a tensor is a quantised weight, or lies in one."""
    root = node if node.view is None else node.view
    return bool(root.flags & WEIGHT) and root.type.block_elements > 1
