"""Links between cards: what joins them, how fast it is, and what crosses it."""

from service.core.links.pcie import hidden_state_bytes, pcie_bytes_per_s

__all__ = ["hidden_state_bytes", "pcie_bytes_per_s"]
