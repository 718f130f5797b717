"""Links of a plan, and refusals of links that cannot be."""

from typing import Any

import pytest

from service.contract.hardware import Links
from service.core.problems import Contradiction, InvalidRequest, PlanProblem
from tests.planner import ask

LLAMA_70B = "llama-3.3-70b:Q4_K_M"


def links(*gpus: object, **parts: Any) -> Links:
    plan = ask(LLAMA_70B, *gpus, context_tokens=4096, **parts)
    assert plan.links is not None
    return plan.links


def test_every_pair_has_one_path() -> None:
    """Two bridged pairs among four cards: two pairs over NVLink, four through the host."""
    found = links("4x rtx-3090")
    assert {path.kind: path.pairs for path in found.paths} == {
        "nvlink": [[0, 1], [2, 3]],
        "host-staged": [[0, 2], [0, 3], [1, 2], [1, 3]],
    }
    assert any("0-1, 2-3" in line and "rig.nvlink" in line for line in found.assumptions)
    assert not any("NVLink" in line for line in links("4x rtx-3090", rig={"nvlink": False}).assumptions)


def test_a_layer_split_sends_a_hidden_state() -> None:
    """32 KiB a token, a microsecond at 4.0 x16 and a latency on top; no reductions."""
    found = links("2x rtx-4090", engine={"split_mode": "layer"})
    assert found.boundary_bytes_per_token == 32768
    assert found.boundary_s_per_token == pytest.approx(15e-6 + 32768 / (0.65 * 31.5e9), rel=1e-3)
    assert found.ubatch_boundary_s == pytest.approx(15e-6 + 512 * 32768 / (0.65 * 31.5e9), rel=1e-3)
    assert found.all_reduce is None


def test_tensor_split_meets_160_times_a_token() -> None:
    """Twice a layer, each time with its latency."""
    found = links("4x rtx-4090", engine={"split_mode": "tensor"}).all_reduce
    assert found is not None
    assert found.meetings_per_token == 160
    assert found.payload_bytes == 32768
    assert found.s.low < found.s.mid < found.s.high
    assert found.token_s == pytest.approx(160 * found.s.mid)
    assert found.token_s > 160 * 20e-6


def test_one_card_and_none() -> None:
    """One card has no path; the host alone has no links."""
    alone = links("h100-sxm5-80gb")
    assert alone.paths == []
    assert alone.boundary_s_per_token is None
    assert alone.load_s.mid > 0
    assert ask("llama-3.1-8b:Q4_K_M", context_tokens=2048).links is None


def test_plans_say_how_to_check_their_links() -> None:
    """The commands of the card's own vendor, whose output can be read back."""
    assert "nvidia-smi topo -m" in links("2x rtx-3090").checks
    assert any("rocm-smi" in command for command in links("2x rx-7900-xtx").checks)


@pytest.mark.parametrize(
    ("gpus", "rig", "problem", "field"),
    [
        (["2x rtx-4090"], {"nvlink": [[0, 1]]}, Contradiction, "rig.nvlink"),
        (["2x rtx-4090"], {"nvlink": True}, Contradiction, "rig.nvlink"),
        (["2x rtx-3090"], {"nvlink": [[0, 2]]}, InvalidRequest, "rig.nvlink"),
        (["4x rtx-3090"], {"nvlink": [[0, 1], [1, 2]]}, Contradiction, "rig.nvlink"),
        (["2x rtx-3090"], {"psu": {"feeds": [[0]]}}, Contradiction, "rig.psu.feeds"),
        (["2x rtx-3090"], {"psu": {"feeds": [[0], [1]], "count": 3}}, Contradiction, "rig.psu.feeds"),
        (["2x rtx-3090"], {"psu": {"feeds": [[0, 1], [7]]}}, InvalidRequest, "rig.psu.feeds"),
        (["2x rtx-3090"], {"platform": "am6"}, InvalidRequest, "rig.platform"),
    ],
)
def test_links_and_supplies_that_cannot_be_are_refused(
    gpus: list[object], rig: dict[str, Any], problem: type[PlanProblem], field: str
) -> None:
    """A card without NVLink, a card that is not there, one in two groups or fed by none is a problem, not a guess."""
    with pytest.raises(problem) as refused:
        ask(LLAMA_70B, *gpus, context_tokens=4096, rig=rig)
    assert field in refused.value.fields
