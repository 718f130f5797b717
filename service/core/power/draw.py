"""What cards and host draw, by what they are doing.

Source: domain notes on power, sections 3, 7 and 8; the figures and who measured them are in hardware_db/power.toml.
"""

from collections.abc import Sequence

from service.core.power.facts import Platform, PowerFacts
from service.core.types import Gpu, Rig


def limit_w(gpu: Gpu) -> float | None:
    """What a card may draw: its limit where one is set, else its own power; None where neither is known."""
    return gpu.power_limit_w or gpu.tdp_w or (gpu.board.system_power_w if gpu.board else None)


def peak_w(gpus: Sequence[Gpu]) -> float | None:
    """All cards at their limits, as in prefill, tensor split and batches; None where one is not known.

    Source: domain notes on power, section 9, and worked examples: prefill and tensor split load all cards.
    """
    limits = [limit_w(gpu) for gpu in gpus]
    return None if None in limits else sum([each for each in limits if each is not None])


def decode_w(gpu: Gpu, busy_fraction: float, facts: PowerFacts) -> float | None:
    """Mean draw of a card that decodes for a part of every step and waits for the others in the rest.

    Memory-bound decode draws about a card's own power; waiting in between does not let it fall to idle.
    """
    most, own = limit_w(gpu), gpu.tdp_w or limit_w(gpu)
    if most is None or own is None:
        return None
    busy_w = min(most, facts.decode_fraction * own)
    waiting_w = min(most, facts.waiting_fraction * own)
    return busy_fraction * busy_w + (1 - busy_fraction) * waiting_w


def idle_w(gpus: Sequence[Gpu], *, loaded: bool) -> float:
    """All cards without work, empty or with a model in memory; 0 for a card that nobody knows the draw of."""
    return sum([((gpu.board.loaded_w if loaded else gpu.board.idle_w) or 0.0) for gpu in gpus if gpu.board])


def platform_of(rig: Rig, facts: PowerFacts) -> Platform:
    """The rig's family of processors, else the one assumed."""
    return facts.platforms.get(rig.machine.platform or "", facts.assumed_platform)


def host_w(rig: Rig, facts: PowerFacts, *, host_works: bool) -> float:
    """Processor, board, fans, memory and network of the machine around the cards.

    host_works: whether the processor computes, as with experts or layers on the host; else it feeds the cards alone.
    Nothing where the whole machine is one chip: its figure includes that.

    Source: domain notes on power, section 3: board 50 W, 4 W a memory module, 10 to 15 W a network card.
    """
    if whole_machine(rig):
        return 0.0
    machine, platform = rig.machine, platform_of(rig, facts)
    full_w = machine.cpu_w or platform.peak_w
    cpu_w = full_w if host_works else min(full_w, platform.gpu_only_w)
    modules = machine.dimms or platform.dimms
    return cpu_w + facts.board_w + facts.dimm_w * modules + facts.nic_w * (machine.nics or 0)


def host_idle_w(rig: Rig, facts: PowerFacts) -> float:
    """The machine around the cards without work."""
    return 0.0 if whole_machine(rig) else facts.host_idle_w


def whole_machine(rig: Rig) -> bool:
    """Whether every device is part of a system's own chip, whose figure includes processor and memory."""
    return bool(rig.gpus) and all(gpu.board is not None and gpu.board.form == "chip" for gpu in rig.gpus)


def whole_machine_w(rig: Rig) -> float:
    """What machines built around one chip draw at most by their makers' figures, as far as they give one."""
    return sum([gpu.board.system_power_w or 0.0 for gpu in rig.gpus if gpu.board]) if whole_machine(rig) else 0.0
