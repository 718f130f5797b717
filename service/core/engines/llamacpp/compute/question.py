"""What compute buffers depend on, and what they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.context import ContextNumbers
from service.core.engines.llamacpp.slots import SlotMap
from service.core.engines.llamacpp.versions import NEWEST, VersionRules
from service.core.types import Backend, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeQuestion:
    """One model in one context on one rig.

    backends: those of the devices, in order; the host comes behind them by itself.
    slots: the device of each block and of the output layer. tensor_location: tensors that do not follow their slot, by
    name: a device index or CPU (-1). pipeline_copies: 4 where pipeline parallelism is on, else 1.
    op_offload: whether devices compute large batches with weights of the host (--op-offload).
    fit_view: the figures that llama.cpp's own fit works with (first reserve only, without ties of operations to
    backends) instead of what it allocates.
    rules: of the llama.cpp version; graphs themselves are always the newest.
    """

    model: Model
    hp: Hparams
    ctx: ContextNumbers
    slots: SlotMap
    backends: tuple[Backend, ...]
    tensor_location: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    pipeline_copies: int = 1
    op_offload: bool = True
    fit_view: bool = False
    rules: VersionRules = NEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeBuffers:
    """Bytes of scratch memory per device, in the order of the question's backends, and of the host."""

    device_bytes: tuple[int, ...]
    host_bytes: int
