"""Facts the core reasons about: models, devices, rigs and workloads, frozen and in SI base units."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from service.core.board import Attachment, Board
from service.core.machine import DEFAULT_MACHINE, Machine

Backend = Literal["cuda", "rocm", "vulkan", "metal", "sycl", "rpc", "cpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorType:
    """A ggml tensor type: `block_elements` values are stored in `block_bytes` bytes.

    Source: ggml/src/ggml.c type traits (ggml 0.25.3), through the `gguf` package.
    """

    id: int
    name: str
    block_elements: int
    block_bytes: int

    def __hash__(self) -> int:
        return self.id

    def row_bytes(self, elements: int) -> int:
        """Bytes of one row of `elements` values (ggml_row_size)."""
        return elements // self.block_elements * self.block_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One row of a GGUF tensor table; `shape` in ggml order (ne0, the contiguous dimension, first)."""

    name: str
    type: TensorType
    shape: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LongArray:
    """A metadata array that was counted, not kept (token lists, merges, scores)."""

    count: int


MetadataScalar: TypeAlias = str | int | float | bool
MetadataValue: TypeAlias = MetadataScalar | tuple[MetadataScalar, ...] | LongArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """A model as its GGUF header describes it; identity is `id`, the digest of metadata and tensor table.

    Compared and hashed by identity of the object, so that rules can be memoised per parsed model.
    """

    id: str
    name: str | None
    quant: str | None
    architecture: str
    metadata: Mapping[str, MetadataValue]
    tensors: tuple[Tensor, ...]
    # the tensor table by name, built once by the reader
    tensor_by_name: Mapping[str, Tensor] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a number comes from: `source` in words or as an address, `verified` whether it was re-read there."""

    source: str
    verified: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A card (or the GPU part of a chip) as plans see it.

    total_bytes: what the driver reports as size; usable_bytes: what a program gets on an idle card
    after driver and context; free_bytes: as stated by the user, None where idle.
    `generation` is the marketing architecture ("Ampere"); compute_capability only for NVIDIA.
    bandwidth_bytes_per_s: None where nobody stated it; a plan then has no speed.
    behind, numa_node: what its slot hangs on, None where the user did not say. board: None for a card in no catalogue.
    Hashed once: rules are memoised per card and rig.
    """

    slug: str
    name: str
    backend: Backend
    generation: str | None = None
    compute_capability: tuple[int, int] | None = None
    total_bytes: int
    usable_bytes: int
    usable_basis: str
    bandwidth_bytes_per_s: float | None = None
    fp32_flops: float | None = None
    fp16_tensor_flops: float | None = None
    tdp_w: float | None = None
    power_limit_w: float | None = None
    pcie_gen: int | None = None
    pcie_lanes: int | None = None
    behind: Attachment | None = None
    numa_node: int | None = None
    board: Board | None = None
    unified_memory: bool = False
    integrated: bool = False
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # what tells most cards apart; equal cards have equal hashes
        object.__setattr__(self, "_hash", hash((self.slug, self.backend, self.usable_bytes, self.pcie_lanes)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine around the cards; None where the user did not say."""

    ram_bytes: int | None = None
    ram_bandwidth_bytes_per_s: float | None = None
    cpu: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """Cards in the order the engine will see them, their host, and the machine around them.

    Hashed once, as its cards are.
    """

    gpus: tuple[Gpu, ...]
    host: Host = Host()
    machine: Machine = DEFAULT_MACHINE
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.gpus, self.host, self.machine.psu.rated_w)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What will be asked of the model; context_tokens None means the largest that fits."""

    context_tokens: int | None = None
    parallel: int = 1
    prompt_tokens: int = 1024
    cached_tokens: int = 0
    output_tokens: int = 256
