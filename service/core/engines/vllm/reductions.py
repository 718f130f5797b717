"""All-reduces between the ranks of a stage: which kernel adds up, and how long it takes."""

from service.core.engines.vllm.deployment import Deployment, Rank
from service.core.engines.vllm.speed_constants import MEETING_S, REDUCTIONS_PER_LAYER, SHARED_BRIDGE_FRACTION
from service.core.links.all_reduce import Implementation, all_reduce
from service.core.links.topology import slowest_path
from service.core.types import Rig
from service.core.units import MIB

_HIDDEN_ELEMENT_BYTES = 2
# payload up to which vLLM's own kernel reduces. Source: custom_all_reduce.py (0.33.0)
_LARGEST_CUSTOM_BYTES = 8 * MIB


def implementation_of(rig: Rig, cards: tuple[int, ...]) -> Implementation:
    """What reduces over some cards: vLLM's own kernel for two with peer access or any number joined by NVLink.

    Source: CustomAllreduce, distributed/device_communicators/custom_all_reduce.py:118,211-283 (0.33.0).
    """
    path = slowest_path(rig, cards)
    if path is None or len(cards) not in (2, 4, 6, 8):
        return "nccl"
    return "custom" if path.kind == "nvlink" or (path.kind == "pcie-p2p" and len(cards) == 2) else "nccl"


def reducing_s(deployment: Deployment, rank: Rank, tokens: int, rig: Rig) -> float:
    """All-reduces of a rank's blocks for `tokens` hidden states; large ones go through NCCL, as chunks do."""
    tp = deployment.layout.tensor_parallel
    place = deployment.layout.cards.index(rank.card)
    cards = deployment.layout.cards[place // tp * tp : place // tp * tp + tp]
    path = slowest_path(rig, cards)
    if tp == 1 or path is None:
        return 0.0
    payload = tokens * deployment.model.hidden_size * _HIDDEN_ELEMENT_BYTES
    small = payload <= _LARGEST_CUSTOM_BYTES
    implementation = implementation_of(rig, cards) if small else "nccl"
    if path.kind != "nvlink" and tp > 2:
        payload = round(payload / SHARED_BRIDGE_FRACTION)
    once = all_reduce(path, tp, payload, implementation)
    return 0.0 if once is None else len(rank.blocks) * REDUCTIONS_PER_LAYER * (once.mid + MEETING_S)
