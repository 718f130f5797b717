"""Tensors of a model that split mode tensor cuts alike, so that one of them is cut for all."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.buckets import LoadedTensor
from service.core.engines.llamacpp.split_axes import split_axis
from service.core.engines.llamacpp.weights import WeightLayout
from service.core.types import Model, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """The first of `count` tensors that are cut alike; name: within its block `il`, None outside blocks."""

    first: LoadedTensor
    name: str
    il: int | None
    count: int


@lru_cache(maxsize=512)
def alike_tensors(model: Model, layout: WeightLayout, begin: int, n_devices: int) -> Sequence[Alike]:
    """Tensors of the slots from `begin` on, in the order of the first of each kind.

    Alike are tensors of one name, shape and type whose blocks have the same sizes, have the types that a cut goes by,
    and begin with the same one of `n_devices` devices.
    """
    found: dict[Hashable, LoadedTensor] = {}
    counts: dict[Hashable, int] = {}
    kinds = CutKinds(model, layout.hp, n_devices)
    for loaded in (loaded for tensors in layout.by_slot[begin:] for loaded in tensors):
        name, il = name_within_block(loaded)
        kind = kinds.of(name, il, loaded_shape(loaded.tensor, name, layout.hp))
        key = (kind, loaded.tensor.type.id, loaded.op, loaded.kind.is_routed_expert)
        found.setdefault(key, loaded)
        counts[key] = counts.get(key, 0) + 1
    named = ((loaded, *name_within_block(loaded), counts[key]) for key, loaded in found.items())
    return tuple(Alike(first=loaded, name=name, il=il, count=count) for loaded, name, il, count in named)


class CutKinds:
    """What tells how a tensor is cut besides the shares and its own type."""

    __slots__ = ("_hp", "_model", "_n_devices", "_references", "_sizes", "_turns")

    def __init__(self, model: Model, hp: Hparams, n_devices: int) -> None:
        self._model = model
        self._hp = hp
        self._n_devices = n_devices
        self._turns = layer_turns(hp)
        self._sizes = _block_sizes(hp)
        self._references: dict[tuple[str, tuple[int, ...]], tuple[str, ...]] = {}

    def of(self, name: str, il: int | None, shape: tuple[int, ...]) -> Hashable:
        """Equal for tensors that are cut alike, if their types are equal; name, il: as in `Alike`."""
        references = self._references.get((name, shape))
        if references is None:
            references = self._references[name, shape] = split_axis(name, shape, self._hp).references
        turn = None if il is None else self._turns[il] % self._n_devices
        return name, shape, turn, self._sizes[il or 0], self._types(il or 0, references)

    def _types(self, il: int, references: Sequence[str]) -> tuple[int | None, ...]:
        """Types of the tensors in a block whose blocks of quantised values a cut must respect."""
        tensors = self._model.tensor_by_name
        found = (tensors.get(f"blk.{il}.{base}.weight") for base in references)
        return tuple([None if tensor is None else tensor.type.id for tensor in found])


@lru_cache(maxsize=256)
def _block_sizes(hp: Hparams) -> Sequence[Hashable]:
    """Whatever of a block the rules of a cut look at."""
    return tuple(zip(hp.is_recr, hp.is_swa, hp.n_head, hp.n_head_kv, hp.n_ff, hp.n_ff_exp, strict=True))


@lru_cache(maxsize=256)
def layer_turns(hp: Hparams) -> tuple[int, ...]:
    """How many earlier layers are of the same sort: the device that comes first in sharing out a layer.

    Source: get_il_eff, src/llama-model.cpp:440-450 (llama.cpp in llama-cpp-python 0.3.36).
    """
    seen: dict[tuple[bool, bool], int] = {}
    turns = []
    for kind in zip(hp.is_recr, hp.is_swa, strict=True):
        turns.append(seen.get(kind, 0))
        seen[kind] = turns[-1] + 1
    return tuple(turns)


def loaded_shape(tensor: Tensor, name: str, hp: Hparams) -> tuple[int, ...]:
    """Shape as loaded: one grouped projection is stored flat and loaded in groups (src/models/deepseek4.cpp:120)."""
    if name == "attn_output_a.weight" and hp.dsv4_o_group_count:
        return tensor.shape[0], hp.dsv4_o_lora_rank, hp.dsv4_o_group_count
    return tensor.shape


def name_within_block(loaded: LoadedTensor) -> tuple[str, int | None]:
    """Name without the block, and the block of `blk.` tensors; others count as outside blocks."""
    if loaded.tensor.name.startswith("blk."):
        return loaded.tensor.name.split(".", 2)[2], loaded.kind.block
    return loaded.tensor.name, None
