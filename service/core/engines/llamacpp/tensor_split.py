"""Split mode tensor: every device holds a slice of every layer."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.alike_tensors import CutKinds, alike_tensors, layer_turns, loaded_shape
from service.core.engines.llamacpp.buckets import LoadedTensor
from service.core.engines.llamacpp.buffer_types import buffer_rules
from service.core.engines.llamacpp.cache_layout import CacheLayout
from service.core.engines.llamacpp.context import ContextNumbers
from service.core.engines.llamacpp.kv_cache import KvIndex
from service.core.engines.llamacpp.op_support import supports_weight
from service.core.engines.llamacpp.slots import CPU, SlotMap, check_weights, float32
from service.core.engines.llamacpp.split_axes import MIRRORED, split_axis
from service.core.engines.llamacpp.split_parts import Segment, aborts, piece_lengths, segment_lengths
from service.core.engines.llamacpp.tensor_kinds import WeightOp
from service.core.engines.llamacpp.weights import (
    NO_WEIGHTS,
    PlacedWeights,
    WeightLayout,
    Weights,
    copies,
    host_copy,
    input_weights,
    pinned_weights,
    slot_sums,
    weights_of,
)
from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.types import Backend, Model, Tensor, TensorType

_UNQUANTISED = TENSOR_TYPE_BY_NAME["f32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slices:
    """Elements of every device along the cut dimension; None where each holds the whole tensor."""

    axis: int
    lengths: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorSplit:
    """The devices of one joint device, and their shares; no shares, or all zero, mean even slices.

    Source: llama_meta_device_get_split_state, src/llama-model.cpp:377-884 (llama.cpp in llama-cpp-python 0.3.36).
    """

    model: Model
    hp: Hparams
    backends: tuple[Backend, ...]
    shares: tuple[float, ...]
    turns: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        check_weights(self.shares)
        object.__setattr__(self, "turns", layer_turns(self.hp))

    def slices(self, name: str, il: int | None, shape: tuple[int, ...], own_type: TensorType) -> _Slices:
        """Slices of the tensor called `name` within block `il`, None for tensors outside blocks."""
        rule = split_axis(name, shape, self.hp)
        if rule.axis == MIRRORED:
            return _Slices(axis=MIRRORED, lengths=None)
        layer = il or 0
        block = self._reference_block(name, layer, rule.references, own_type)
        length = shape[rule.axis] if rule.axis < len(shape) else 1
        parts = segment_lengths(name, length, layer, self.hp)
        pieces = piece_lengths(name, shape, block, layer, self.hp, len(self.backends))
        if len(pieces) != len(parts) or 0 in pieces:
            raise aborts(name, "its heads cannot be shared out")
        turn = (self.hp.n_layer if il is None else self.turns[il]) % len(self.backends)
        totals = [0] * len(self.backends)
        for (part, repeats), piece in zip(parts, pieces, strict=True):
            cut = cut_segment(Segment(length=part, repeats=repeats, piece=piece), self.shares, len(totals), turn)
            totals = [total + elements for total, elements in zip(totals, cut, strict=True)]
        return _Slices(axis=rule.axis, lengths=tuple(totals))

    def _reference_block(self, name: str, il: int, references: tuple[str, ...], own_type: TensorType) -> int:
        """Elements per quantisation block of the tensor that the cut must respect."""
        if not references:
            return own_type.block_elements
        for base in references:
            tensor = self.model.tensor_by_name.get(f"blk.{il}.{base}.weight")
            if tensor is not None:
                return tensor.type.block_elements
        raise aborts(name, f"block {il} has no {references[-1]}.weight to go by")


def cut_segment(segment: Segment, shares: Sequence[float], n_devices: int, turn: int) -> tuple[int, ...]:
    """Elements of every device of one segment, its repeats included.

    Shares are added up and applied in float32, starting with the device whose turn it is; cuts are rounded down to
    whole pieces and the last device in turn takes the rest.
    Source: src/llama-model.cpp:836-866 (llama.cpp in llama-cpp-python 0.3.36).
    """
    order = [(position + turn) % n_devices for position in range(n_devices)]
    running, scan = 0.0, []
    for device in order:
        running = float32(running + float32(shares[device])) if shares else 0.0
        scan.append(running)
    elements, low = [0] * n_devices, 0
    for position, device in enumerate(order[:-1]):
        if running == 0:
            high = segment.length * (position + 1) // n_devices
        else:
            high = int(float32(float32(float32(segment.length) * scan[position]) / running))
        high -= high % segment.piece
        elements[device], low = (high - low) * segment.repeats, high
    elements[order[-1]] = (segment.length - low) * segment.repeats
    return tuple(elements)


def _slice_bytes(shape: tuple[int, ...], tensor_type: TensorType, axis: int, length: int, backend: Backend) -> int:
    """Allocated bytes of a slice of `length` along `axis`."""
    sliced = [length if dimension == axis else size for dimension, size in enumerate(shape)]
    size_bytes = tensor_type.row_bytes(sliced[0])
    for size in sliced[1:]:
        size_bytes *= size
    return buffer_rules(backend).allocated_bytes(tensor_type, sliced[0], size_bytes)


def _split_tensor(split: TensorSplit, name: str, il: int | None, tensor: Tensor) -> list[int]:
    shape = loaded_shape(tensor, name, split.hp)
    slices = split.slices(name, il, shape, tensor.type)
    lengths = slices.lengths or (0,) * len(split.backends)
    return [
        _slice_bytes(shape, tensor.type, slices.axis, length, backend)
        for length, backend in zip(lengths, split.backends, strict=True)
    ]


def _share(loaded: LoadedTensor, size_bytes: int) -> Weights:
    """Weights of slices of so many bytes; experts in proportion."""
    return Weights(
        weights_bytes=size_bytes,
        expert_bytes=size_bytes if loaded.kind.is_routed_expert else 0,
        lookup_bytes=size_bytes if loaded.op == "get_rows" else 0,
    )


@lru_cache(maxsize=256)
def tensor_split(model: Model, hp: Hparams, backends: tuple[Backend, ...], shares: tuple[float, ...]) -> TensorSplit:
    """The split of `model` over devices of `backends` by `shares`; memoised."""
    return TensorSplit(model=model, hp=hp, backends=backends, shares=shares)


@lru_cache(maxsize=512)
def split_weights(split: TensorSplit, layout: WeightLayout, slots: SlotMap) -> PlacedWeights:
    """Weights of every device where the slots of the joint device (0 in `slots`) are cut; memoised.

    Tensors of slots on the host stay there whole, as do overridden ones. One of each kind of tensors is cut.
    Raises Unsupported where a tensor cannot be cut.
    Source: src/llama-model.cpp:377-884, ggml/src/ggml-backend-meta.cpp:1718-1770
    (llama.cpp in llama-cpp-python 0.3.36).
    """

    def holds(op: WeightOp, tensor: Tensor) -> bool:
        return all(supports_weight(backend, op, tensor, layout.hp) for backend in split.backends)

    _, begin = slots.range_of(CPU)
    host = input_weights(layout) + pinned_weights(layout, CPU, "cpu") + slot_sums(layout, "cpu").held[begin]
    devices = [NO_WEIGHTS] * len(split.backends)
    for alike in alike_tensors(split.model, layout, begin, len(devices)):
        loaded = alike.first
        if not holds(loaded.op, loaded.tensor):
            host += weights_of((loaded,) * alike.count, "cpu")
            continue
        for device, size_bytes in enumerate(_split_tensor(split, alike.name, alike.il, loaded.tensor)):
            devices[device] += _share(loaded, alike.count * size_bytes)
    for shared in layout.shared:
        targets = copies(shared, layout, slots, (holds(shared.op, shared.tensor),))
        for target in targets:
            if target == CPU:
                host += host_copy(shared, targets)
                continue
            for device, size_bytes in enumerate(_split_tensor(split, shared.tensor.name, None, shared.tensor)):
                devices[device] += Weights(weights_bytes=size_bytes)
    return PlacedWeights(devices=tuple(devices), host=host)


_CACHE_NAMES: Mapping[str, tuple[str, str]] = {
    "base": ("cache_k", "cache_v"),
    "swa": ("cache_k", "cache_v"),
    "recurrent": ("cache_r", "cache_s"),
}


@lru_cache(maxsize=1024)
def _row_slices(
    split: TensorSplit, layout: CacheLayout, position: int, first_layer: int, end_layer: int
) -> Mapping[tuple[int, ...], int]:
    """How often each way of sharing out a row occurs: elements per device → layers. Mirrored rows go to all in full."""
    name = _CACHE_NAMES.get(layout.kind, ("", ""))[position]
    counts: Counter[tuple[int, ...]] = Counter()
    kinds, known = CutKinds(split.model, split.hp, len(split.backends)), dict[Hashable, tuple[int, ...]]()
    for il, width in enumerate((layout.first, layout.second)[position][first_layer:end_layer], first_layer):
        if width:
            kind = kinds.of(name, il, (width,))
            if kind not in known:
                slices = split.slices(name, il, (width,), _UNQUANTISED)
                known[kind] = slices.lengths or (width,) * len(split.backends)
            counts[known[kind]] += 1
    return counts


def split_caches(split: TensorSplit, index: KvIndex, first_layer: int, end_layer: int) -> tuple[int, ...]:
    """Cache bytes of every device for layers first_layer..end_layer-1; K, V and state are cut, other caches mirrored.

    Source: src/llama-model.cpp:536-580 (llama.cpp in llama-cpp-python 0.3.36).
    """
    totals = [0] * len(split.backends)
    for group in index.groups:
        for position, tensor_type in enumerate((group.type_first, group.type_second)):
            for lengths, layers in _row_slices(split, group.layout, position, first_layer, end_layer).items():
                for device, (length, backend) in enumerate(zip(lengths, split.backends, strict=True)):
                    totals[device] += layers * _slice_bytes((length, group.rows), tensor_type, MIRRORED, 0, backend)
    return tuple(totals)


def reduction_bytes(hp: Hparams, ctx: ContextNumbers, n_devices: int) -> int:
    """Scratch of one device for adding up partial results, allocated with the first tokens.

    One buffer per step of a butterfly over the devices, each as large as the largest partial result: the embedding
    of every token, once per routed expert that a token uses.
    Source: ggml/src/ggml-backend-meta.cpp:1816 and 2235-2243 (llama.cpp in llama-cpp-python 0.3.36).
    """
    steps = (n_devices - 1).bit_length()
    return steps * 4 * hp.n_embd * ctx.n_tokens * max(1, *hp.n_expert_used)
