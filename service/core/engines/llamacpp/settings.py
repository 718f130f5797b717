"""What a user can fix about llama.cpp; None is left to the planner."""

from dataclasses import dataclass, field, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Literal

from service.core.engines.llamacpp.buffer_types import HOST_BUFFER_TYPE

SplitMode = Literal["none", "layer", "row", "tensor"]
Tool = Literal["llama-server", "llama-bench"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideTensor:
    """One `-ot` entry: tensors whose name the regex finds go to the named buffer type."""

    pattern: str
    buffer_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCppSettings:
    """The engine fields of a request, spelled as the contract spells them.

    n_gpu_layers: number of slots, "all", or None for the planner's choice.
    tensor_split: shares per device, any positive scale. devices: cards by their position in the rig or by the engine's
    name for them, in the order it is to take them; None for all it takes by itself. Hashed once: rules are memoised by
    settings.
    """

    version: str | None = None
    date: str | None = None
    tool: Tool = "llama-server"
    split_mode: SplitMode | None = None
    main_gpu: int = 0
    devices: tuple[int | str, ...] | None = None
    tensor_split: tuple[float, ...] | None = None
    n_gpu_layers: int | Literal["all"] | None = None
    n_batch: int = 2048
    n_ubatch: int = 512
    flash_attn: bool | None = None
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    kv_unified: bool | None = None
    swa_full: bool = False
    n_cpu_moe: int | None = None
    override_tensor: tuple[OverrideTensor, ...] = ()
    kv_offload: bool = True
    _hash: int = field(init=False, repr=False, compare=False)
    _plain: "LlamaCppSettings | None" = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(_STATED(self)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def without_shares(self) -> "LlamaCppSettings":
        """The same without shares and a number of layers; equal ones are the same object."""
        plain = self._plain
        if plain is None:
            plain = _without_shares(*_BESIDE_SHARES(self))
            object.__setattr__(self, "_plain", plain)
        return plain

    @property
    def names_cards(self) -> bool:
        """Whether overrides send tensors to cards, which must all take part then."""
        return any(entry.buffer_type != HOST_BUFFER_TYPE for entry in self.override_tensor)


_FIELDS: Final = tuple(each.name for each in fields(LlamaCppSettings) if each.compare)
_STATED: Final = attrgetter(*_FIELDS)
_KEPT: Final = tuple(name for name in _FIELDS if name not in ("tensor_split", "n_gpu_layers"))
_BESIDE_SHARES: Final = attrgetter(*_KEPT)


@lru_cache(maxsize=4096)
def _without_shares(*kept: Any) -> LlamaCppSettings:
    return LlamaCppSettings(**dict(zip(_KEPT, kept, strict=True)))
