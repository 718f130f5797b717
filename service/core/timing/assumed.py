"""What is assumed where a request does not say."""

from typing import Final

ASSUMED_PCIE: Final = (4, 16)
# Share of a PCI Express link that weights copied to a card for a large batch reach. Source: measured copies, 0.84 of a
# generation 4 x4 and 0.89 of a generation 5 x16 link (domain notes on interconnects, section 1).
LINK_FRACTION: Final = 0.85
# Two channels of DDR5-5600, what most desktop machines have.
ASSUMED_RAM_BANDWIDTH_BYTES_PER_S: Final = 2 * 8 * 5600e6
# Eight AVX2 cores at 4.5 GHz, 32 FP32 operations per cycle and core: processors are in no catalogue.
ASSUMED_HOST_CORES: Final = 8
ASSUMED_HOST_FP32_FLOPS: Final = ASSUMED_HOST_CORES * 4.5e9 * 32
# Dense FP16 tensor rate that prompts reach where the FP32 rate of a card is not known. Source: speed study, one
# efficiency for all cards has a median error of 34 %.
TENSOR_RATE_FRACTION: Final = 0.6
