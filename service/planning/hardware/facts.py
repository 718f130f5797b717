"""Facts that warnings about power, cooling and links compare, by name; None where not known."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import comb

from service.catalog.power_facts import power_facts
from service.core.conditions import Fact
from service.core.links.all_reduce import alpha_of, implementation_of
from service.core.links.topology import link_bytes_per_s, nvlink_groups, slowest_path, stock_peer_access
from service.core.power.budget import Budget
from service.core.power.connectors import boards_of, missing_leads, sockets_of
from service.core.power.draw import limit_w, platform_of
from service.core.power.energy import kwh_per_year
from service.core.power.psu import lasting_psu_w, standard_psu_w
from service.core.power.slots import slots_needed, stacked_wide_cards
from service.core.power.wall import circuit_w, continuous_w, heat_btu_per_h
from service.core.power_limits import limited_speed
from service.core.types import Gpu, Rig
from service.planning.hardware.work import Mode

_WORDS = {"nvlink": "NVLink", "pcie-p2p": "PCI Express", "host-staged": "the host's memory", "network": "the network"}


def rig_facts(rig: Rig, mode: Mode, budget: Budget | None) -> dict[str, Fact]:
    """Facts of the whole rig."""
    return {**_supply(rig, mode, budget), **_room(rig), **_meeting(rig, mode), **_bridges(rig, mode), **_lanes(rig)}


def _supply(rig: Rig, mode: Mode, budget: Budget | None) -> dict[str, Fact]:
    machine = rig.machine
    psu, circuit = machine.psu, machine.circuit
    wall_w = None if budget is None else budget.wall_w(budget.system_peak_w)
    idle_wall_w = None if budget is None else budget.wall_w(budget.idle_w)
    known = circuit.volts is not None and circuit.amps is not None
    most_w = circuit_w(circuit.volts or 0, circuit.amps or 0) if known else None
    return {
        "boards": sum(boards_of(gpu.board for gpu in rig.gpus).values()),
        "wall_peak_w": wall_w,
        "heat_btu_per_h": None if wall_w is None else heat_btu_per_h(wall_w),
        "idle_gpus_w": None if budget is None else budget.idle_gpus_w,
        "idle_wall_w": idle_wall_w,
        "idle_kwh_per_year": None if idle_wall_w is None else kwh_per_year(idle_wall_w),
        "vendor_psu_w": None if budget is None else budget.vendor_psu_w,
        "psu_rated_w": psu.rated_w,
        "psu_total_w": None if psu.rated_w is None else psu.rated_w * psu.count,
        "psu_kind": psu.kind,
        "volts": circuit.volts,
        "amps": circuit.amps,
        "circuit_w": most_w,
        "circuit_continuous_w": continuous_w(circuit.volts or 0, circuit.amps or 0) if known else None,
        "circuit_fraction": None if wall_w is None or not most_w else wall_w / most_w,
        # inference servers are continuous loads: domain notes on power, section 5
        "continuous": mode.serves if circuit.continuous is None else circuit.continuous,
        "shared": circuit.shared,
    }


def _room(rig: Rig) -> dict[str, Fact]:
    boards, machine = boards_of(gpu.board for gpu in rig.gpus), rig.machine
    facts: dict[str, Fact] = {
        "chassis": machine.chassis,
        "case_slots": machine.slots,
        "slots_needed": slots_needed(boards),
        "stacked_wide_cards": None if machine.slots is None else stacked_wide_cards(boards, machine.slots),
        "missing_leads": None,
        "missing_kinds": None,
    }
    if machine.psu.leads is not None:
        connectors, (sockets, _) = power_facts().connectors, sockets_of(boards)
        leads = {kind: count * machine.psu.count for kind, count in machine.psu.leads}
        missing = missing_leads(sockets, _socket_w(rig.gpus), leads, connectors)
        facts["missing_leads"] = sum(missing.values())
        facts["missing_kinds"] = ", ".join(f"{count} {kind}" for kind, count in missing.items())
    return facts


def _socket_w(gpus: Sequence[Gpu]) -> Mapping[str, float]:
    """What one socket of each kind carries at most: the whole card's power where the card has only that one."""
    most: dict[str, float] = {}
    for gpu in gpus:
        for kind, count in (gpu.board.connectors or ()) if gpu.board else ():
            whole_w = (limit_w(gpu) or 0.0) * (gpu.board.devices if gpu.board else 1)
            most[kind] = max(most.get(kind, 0.0), min(whole_w / count, power_facts().connectors[kind].rated_w))
    return most


def _meeting(rig: Rig, mode: Mode) -> dict[str, Fact]:
    cards, path = len(mode.sharing), slowest_path(rig, mode.sharing)
    alpha = None
    if path is not None and path.kind != "network":
        alpha = alpha_of(path.kind, cards, implementation_of(cards))
    links = {card: link_bytes_per_s(rig.gpus[card]) for card in mode.sharing if not rig.gpus[card].unified_memory}
    narrowest = min(links, key=lambda card: links[card], default=None)
    sockets = {rig.gpus[card].numa_node for card in mode.sharing} - {None}
    kinds = Counter(rig.gpus)
    unlike = [kinds[one] * kinds[other] for one, other in combinations(kinds, 2) if _patched_and_unlike(one, other)]
    every = slowest_path(rig, tuple(range(len(rig.gpus))))
    return {
        "together": mode.together,
        "sharing_cards": cards,
        "slowest_kind": None if path is None else path.kind,
        "slowest_path": None if every is None else _WORDS[every.kind],
        "slowest_gb_per_s": every.bandwidth_bytes_per_s / 1e9 if every and every.bandwidth_bytes_per_s else None,
        "narrowest_card": narrowest,
        "narrowest_gb_per_s": None if narrowest is None else round(links[narrowest] / 1e9, 2),
        "alpha_low_us": None if alpha is None else alpha.low_s * 1e6,
        "alpha_high_us": None if alpha is None else alpha.high_s * 1e6,
        "syncs_per_token": mode.meetings_per_token,
        "sync_ms_per_token": None if alpha is None else mode.meetings_per_token * alpha.mid_s * 1e3,
        "sockets": len(sockets),
        "p2p_claimed": bool(rig.machine.p2p),
        "pairs": comb(len(rig.gpus), 2),
        "unlike_patched_pairs": sum(unlike),
    }


def _patched_and_unlike(one: Gpu, other: Gpu) -> bool:
    return not stock_peer_access(one, other) and (
        one.generation != other.generation or one.compute_capability != other.compute_capability
    )


def _bridges(rig: Rig, mode: Mode) -> dict[str, Fact]:
    """Cards with bridges, the most that one joins, and whether it matters that others are joined by none."""
    stated, groups = rig.machine.nvlink, nvlink_groups(rig)
    among = groups if stated is None else stated
    bridged = [card for group in among for card in group if _has_bridge(rig.gpus[card])]
    sizes = [board.nvlink_max_gpus for card in bridged if (board := rig.gpus[card].board) and board.nvlink_max_gpus]
    claimed = stated is not None and any(len(group) > min(sizes, default=len(group)) for group in stated)
    return {
        "bridged_cards": len(bridged),
        "bridge_size": min(sizes, default=None),
        "bridged_groups": ", ".join("-".join(map(str, group)) for group in groups),
        "bridges_matter": mode.together or claimed,
    }


def _has_bridge(gpu: Gpu) -> bool:
    return gpu.board is not None and gpu.board.nvlink == "bridge"


def _lanes(rig: Rig) -> dict[str, Fact]:
    platform = platform_of(rig, power_facts())
    wanted = [
        gpu.pcie_lanes or 0
        for gpu in rig.gpus
        if gpu.board is not None and gpu.board.form == "card" and gpu.behind in (None, "cpu")
    ]
    each = 16
    while platform.lanes is not None and each > 1 and each * len(wanted) > platform.lanes:
        each //= 2
    return {
        "platform": platform.name,
        "lanes_wanted": sum(wanted),
        "lanes_available": platform.lanes,
        "lanes_cards": len(wanted),
        "lanes_each": each,
    }


def psu_facts(rig: Rig, budget: Budget | None) -> Iterator[dict[str, Fact]]:
    """Facts of each supply."""
    psu, facts = rig.machine.psu, power_facts()
    if budget is None or psu.rated_w is None:
        return
    bears = facts.psu_class(psu)
    for index, load in enumerate(budget.loads):
        yield {
            "psu_index": index,
            "psu": "The supply" if psu.count == 1 else f"Supply {index}",
            "psu_rated_w": psu.rated_w,
            "psu_class": bears.name,
            "psu_sustained_w": load.sustained_w,
            "psu_load_fraction": load.sustained_w / psu.rated_w,
            "psu_transient_w": load.transient_w,
            "psu_transient_fraction": load.transient_w / psu.rated_w,
            "psu_bears_fraction": bears.transient_fraction,
            "psu_needed_w": standard_psu_w(lasting_psu_w(load, facts), facts),
        }


def card_facts(rig: Rig, mode: Mode) -> Iterator[dict[str, Fact]]:
    """Facts of each kind of card, with the positions that have it."""
    positions: dict[Gpu, list[int]] = {}
    for index, gpu in enumerate(rig.gpus):
        positions.setdefault(gpu, []).append(index)
    for gpu, cards in positions.items():
        yield {
            "cards": f"Card{'s' if len(cards) > 1 else ''} {', '.join(map(str, cards))}",
            "card_indices": cards,
            "gpu": gpu.slug,
            "chassis": rig.machine.chassis,
            "prompt_heavy": mode.prompt_heavy,
            **_board_facts(gpu),
            **_limit_facts(gpu),
        }


def _board_facts(gpu: Gpu) -> dict[str, Fact]:
    board, most_w = gpu.board, limit_w(gpu)
    sockets = dict(board.connectors or ()) if board else {}
    sixteen = sockets.get("16-pin", 0)
    devices = board.devices if board else 1
    return {
        "behind": gpu.behind,
        "link_gb_per_s": link_bytes_per_s(gpu) / 1e9,
        "cooled_by_case": board is not None and board.cooled_by_case,
        "sockets_16pin": sixteen,
        "sockets_eps": sockets.get("8-pin EPS", 0),
        "socket_16pin_w": most_w * devices / sixteen if most_w and sixteen else None,
        "eighty_percent_w": None if most_w is None else 0.8 * most_w,
        "ninety_percent_w": None if most_w is None else 0.9 * most_w,
    }


def _limit_facts(gpu: Gpu) -> dict[str, Fact]:
    kept = limited_speed(gpu.power_limit_w, gpu.tdp_w)
    limited = gpu.power_limit_w is not None and bool(gpu.tdp_w)
    return {
        "card_limit_w": limit_w(gpu),
        "card_tdp_w": gpu.tdp_w,
        "limit_fraction": (gpu.power_limit_w or 0.0) / (gpu.tdp_w or 1.0) if limited else None,
        "decode_kept": kept.decode_fraction,
        "prefill_kept": kept.prefill_fraction,
    }
