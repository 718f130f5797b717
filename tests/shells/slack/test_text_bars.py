"""Memory drawn with characters."""

import pytest

from service.shells.slack.text_bars import CELLS, FREE, OVER, bar, memory_lines
from tests.planner import ask


@pytest.mark.parametrize("context_tokens", [1024, 8192, 16384, 131072])
@pytest.mark.parametrize("gpu", ["3090", "rtx-3060-12gb", "h100-sxm"])
def test_bars_have_one_length(gpu: str, context_tokens: int) -> None:
    """Every bar is as long as the others, with free cells where there is room and marks where there is none."""
    plan = ask("llama-3.1-8b:Q8_0", gpu, context_tokens=context_tokens, engine={"n_gpu_layers": "all"})
    for device in plan.devices:
        drawn = bar(device)
        assert len(drawn) == CELLS
        assert (OVER in drawn) == (device.headroom_bytes < 0)
        free = round(CELLS * max(0, device.headroom_bytes) / device.usable_bytes)
        assert abs(drawn.count(FREE) - free) <= 1


def test_every_device_has_a_line() -> None:
    """A legend, the cards in order and the host."""
    lines = list(memory_lines(ask("llama-3.3-70b", "3090", "4090", context_tokens=4096)))
    assert lines[0].startswith("█ weights")
    assert lines[1].startswith("0 rtx-3090")
    assert lines[2].startswith("1 rtx-4090")
    assert lines[3].startswith("host")


def test_host_alone_has_a_line() -> None:
    """Without cards there is no legend."""
    assert [line.split()[0] for line in memory_lines(ask("llama-3.1-8b", context_tokens=4096))] == ["host"]
