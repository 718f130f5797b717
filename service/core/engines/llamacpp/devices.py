"""Which cards llama.cpp uses, in which order, under which names."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.core.engines.llamacpp.buffer_types import buffer_rules
from service.core.engines.llamacpp.overrides import buffer_type_names
from service.core.engines.llamacpp.settings import SplitMode
from service.core.problems import Contradiction
from service.core.types import Backend, Gpu, Rig


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A card as llama.cpp sees it.

    position: index in the rig. name: of the device and its buffer type, "CUDA0"; RPC names go on with an address.
    """

    gpu: Gpu
    position: int
    name: str

    @property
    def backend(self) -> Backend:
        """The backend that drives the card."""
        return self.gpu.backend

    @property
    def is_integrated(self) -> bool:
        """Whether the backend reports the card as an integrated one; Metal and RPC never do."""
        return self.gpu.integrated and buffer_rules(self.gpu.backend).reports_integrated


def engine_devices(rig: Rig) -> tuple[Device, ...]:
    """Every card of the rig in llama.cpp's order: RPC servers, then by backend as registered, as given within one.

    Raises Contradiction for a card that names the host's backend.
    Source: src/llama.cpp:158-285, ggml/src/ggml-backend-reg.cpp:121-172 (llama.cpp in llama-cpp-python 0.3.36).
    """
    for position, gpu in enumerate(rig.gpus):
        if gpu.backend == "cpu":
            raise Contradiction(
                f"{gpu.name} is given as a card with backend cpu, but the host is no card: leave it out of rig.gpus; a "
                "rig without cards is planned on the host alone",
                fields=(f"rig.gpus.{position}",),
            )
    ranked = sorted(enumerate(rig.gpus), key=lambda card: buffer_rules(card[1].backend).registry_rank)
    names = buffer_type_names([gpu.backend for _, gpu in ranked])
    return tuple(
        Device(gpu=gpu, position=position, name=name) for (position, gpu), name in zip(ranked, names, strict=True)
    )


def usable_devices(devices: Sequence[Device], split_mode: SplitMode) -> tuple[Device, ...]:
    """Those of `devices` llama.cpp picks by itself: integrated ones only where there is no local discrete one.

    Split mode tensor takes all of them.
    Source: src/llama.cpp:191-285 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if split_mode == "tensor":
        return tuple(devices)
    discrete = tuple(device for device in devices if not device.is_integrated)
    if any(device.backend != "rpc" for device in discrete):
        return discrete
    integrated = [device for device in devices if device.is_integrated]
    return (*discrete, *(device for device in integrated if device.backend == integrated[0].backend))


def listed_devices(devices: Sequence[Device], listed: Sequence[int | str]) -> tuple[Device, ...]:
    """The cards that are listed by position in the rig or by name, in that order; nothing is left out.

    Raises Contradiction for a card that there is not, or that is there twice.
    Source: src/llama.cpp:170-174; parse_device_list, common/arg.cpp:1119 (llama.cpp in llama-cpp-python 0.3.36).
    """
    known: dict[int | str, Device] = {device.position: device for device in devices}
    known |= {device.name.lower(): device for device in devices}
    found: list[Device] = []
    for entry in listed:
        device = known.get(entry.lower() if isinstance(entry, str) else entry)
        if device is None or device in found:
            names = ", ".join(device.name for device in sorted(devices, key=lambda device: device.position)) or "none"
            raise Contradiction(
                f"devices names {entry!r} "
                + (f"but this rig has {names}, counted from 0" if device is None else "twice: name each card once"),
                fields=("engine.devices", "rig.gpus"),
            )
        found.append(device)
    return tuple(found)


def chosen_devices(usable: Sequence[Device], split_mode: SplitMode, main_gpu: int) -> tuple[Device, ...]:
    """The devices of the model: all usable ones, or only `main_gpu` in split mode none; -1 there means the host alone.

    Raises Contradiction for an index that no usable device has.
    Source: src/llama.cpp:288-301 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if split_mode != "none" or not usable:
        return tuple(usable)
    if main_gpu < 0:
        return ()
    if main_gpu >= len(usable):
        raise Contradiction(
            f"main_gpu is {main_gpu}, but this rig has {len(usable)} cards to choose from: give 0 to {len(usable) - 1}",
            fields=("engine.main_gpu",),
        )
    return (usable[main_gpu],)
