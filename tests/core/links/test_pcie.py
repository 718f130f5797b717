"""Bandwidth of PCI Express and the hidden state that crosses a layer boundary."""

import pytest

from service.core.links import hidden_state_bytes, pcie_bytes_per_s


@pytest.mark.parametrize(("generation", "lanes", "expected_us"), [(4, 16, 1.04), (4, 4, 4.16), (3, 1, 33.3)])
def test_a_hidden_state_of_llama_70b_over_pcie(generation: int, lanes: int, expected_us: float) -> None:
    """One token's hidden state of 32 KiB takes microseconds, even over one lane."""
    assert hidden_state_bytes(8192) == 32768
    assert hidden_state_bytes(8192) / pcie_bytes_per_s(generation, lanes) * 1e6 == pytest.approx(expected_us, rel=2e-3)


def test_a_ubatch_crosses_with_all_its_tokens() -> None:
    """A ubatch of 512 tokens carries 16.8 MB."""
    assert hidden_state_bytes(8192, 512) == 16_777_216


@pytest.mark.parametrize("generation", range(1, 6))
def test_each_generation_doubles(generation: int) -> None:
    """A generation is about twice as fast as the one before."""
    assert pcie_bytes_per_s(generation + 1, 16) / pcie_bytes_per_s(generation, 16) == pytest.approx(2, rel=0.04)
