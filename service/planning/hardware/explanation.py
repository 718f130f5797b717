"""Power and links in words, with the numbers used."""

from collections.abc import Iterator

from service.contract.hardware import Links, Power


def hardware_steps(power: Power | None, links: Links | None) -> Iterator[str]:
    """What the rig draws and what its links carry, one sentence each."""
    if power is None:
        yield "What the rig draws is not known: a card's power is not stated (tdp_w or power_limit_w)."
    else:
        yield (
            f"All cards at their limits draw {power.gpus_peak_w:.0f} W, the whole machine {power.system_peak_w:.0f} W, "
            f"{power.wall_peak_w:.0f} W at the wall; while tokens are generated {power.gpus_decode_w:.0f} W, "
            f"{power.system_decode_w:.0f} W and {power.wall_decode_w:.0f} W."
        )
        yield from power.assumptions
    if links is None or not links.paths:
        return
    slowest = min(links.paths, key=lambda path: path.bandwidth_bytes_per_s or 0.0)
    rate = slowest.bandwidth_bytes_per_s
    yield (
        "The slowest way between two cards is "
        + {"nvlink": "NVLink", "pcie-p2p": "PCI Express without the host", "network": "a network of unknown rate",
           "host-staged": "through the host's memory"}[slowest.kind]
        + (f", {rate / 1e9:.1f} GB/s." if rate else ".")
    )  # fmt: skip
    yield from links.assumptions
