"""Links of an answer: what joins the cards, and what the plan sends over it."""

from collections.abc import Sequence
from functools import lru_cache

from service.contract.hardware import AllReduce, LinkPath, Links
from service.core.links.all_reduce import all_reduce, implementation_of, sent_bytes
from service.core.links.pcie import hidden_state_bytes
from service.core.links.rates import ASSUMED_PCIE
from service.core.links.topology import nvlink_groups, paths, slowest_path
from service.core.links.transfers import boundary_s, load_s
from service.core.types import Rig
from service.planning.estimates import shown
from service.planning.hardware.work import Mode, Work


def links_of(rig: Rig, work: Work) -> Links | None:
    """Links of a rig and what a plan sends over them; None for a rig without cards."""
    if not rig.gpus:
        return None
    mode = work.mode
    token_s, ubatch_s, reduction = _traffic(rig, mode)
    return Links(
        paths=_paths(rig),
        boundary_bytes_per_token=hidden_state_bytes(mode.n_embd),
        boundary_s_per_token=token_s,
        ubatch_boundary_s=ubatch_s,
        all_reduce=reduction,
        load_s=shown(load_s(rig.gpus, work.weights_bytes)),
        checks=list(_checks(rig)),
        assumptions=list(_assumptions(rig)),
    )


@lru_cache(maxsize=1024)
def _paths(rig: Rig) -> Sequence[LinkPath]:
    pairs: dict[tuple[str, float | None, float | None], list[list[int]]] = {}
    for pair, path in paths(rig):
        pairs.setdefault((path.kind, path.bandwidth_bytes_per_s, path.latency_s), []).append(list(pair))
    return [
        LinkPath.model_validate({"kind": kind, "pairs": joined, "bandwidth_bytes_per_s": rate, "latency_s": latency})
        for (kind, rate, latency), joined in pairs.items()
    ]


@lru_cache(maxsize=1024)
def _traffic(rig: Rig, mode: Mode) -> tuple[float | None, float | None, AllReduce | None]:
    """Time of a hidden state and of a ubatch's over the slowest path, and of a reduction where there are any."""
    path = slowest_path(rig, mode.sharing)
    if path is None:
        return None, None, None
    token_s, ubatch_s = (boundary_s(path, mode.n_embd, tokens) for tokens in (1, mode.ubatch_tokens))
    if not mode.together:
        return token_s, ubatch_s, None
    cards = len(mode.sharing)
    implementation = implementation_of(cards)
    payload = sent_bytes(mode.n_embd, cards, implementation)
    once = all_reduce(path, cards, payload, implementation)
    if once is None:
        return token_s, ubatch_s, None
    reduction = AllReduce(
        implementation=implementation,
        payload_bytes=payload,
        meetings_per_token=mode.meetings_per_token,
        s=shown(once),
        token_s=mode.meetings_per_token * once.mid,
    )
    return token_s, ubatch_s, reduction


@lru_cache(maxsize=1024)
def _checks(rig: Rig) -> tuple[str, ...]:
    """Commands that show what a rig's links are. Source: domain notes on interconnect, sections 4 and 6."""
    backends = {gpu.backend for gpu in rig.gpus}
    if "cuda" in backends:
        link = "nvidia-smi --query-gpu=name,pcie.link.gen.max,pcie.link.width.current,power.limit --format=csv"
        return (link,) if len(rig.gpus) < 2 else (link, "nvidia-smi topo -m", "nvidia-smi topo -p2p r")
    return ("rocm-smi --showproductname --showmaxpower --showtopo",) if "rocm" in backends else ()


@lru_cache(maxsize=1024)
def _assumptions(rig: Rig) -> tuple[str, ...]:
    said = []
    if any(gpu.pcie_lanes is None and not gpu.unified_memory for gpu in rig.gpus):
        said.append(f"Cards without a stated slot sit in generation {ASSUMED_PCIE[0]} x{ASSUMED_PCIE[1]}.")
    elif any(not gpu.unified_memory for gpu in rig.gpus):
        said.append("Every card has the lanes and the generation it was built for unless its slot is stated.")
    groups = nvlink_groups(rig)
    if rig.machine.nvlink is None and groups:
        said.append(
            "NVLink is in place where the cards allow it: "
            + ", ".join("-".join(map(str, group)) for group in groups)
            + "; state rig.nvlink false where there are no bridges."
        )
    if len(rig.gpus) > 1 and rig.machine.p2p is None:
        said.append("Peer access over PCI Express is as each card's stock driver allows; rig.p2p.")
    return tuple(said)
