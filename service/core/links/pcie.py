"""PCI Express links, and the hidden states that cross them."""

# Bytes per second of one lane in one direction: GT/s * 128/130 / 8 from generation 3 on, * 8/10 / 8 before.
# Source: PCI Express base specifications; generation 4 x16 is 31.5 GB/s.
LANE_BYTES_PER_S = {
    1: 0.25e9,
    2: 0.5e9,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
F32_BYTES = 4


def pcie_bytes_per_s(generation: int, lanes: int) -> float:
    """Bytes per second of a PCI Express link in one direction, before protocol overhead.

    Raises KeyError for a generation without a row.
    """
    return LANE_BYTES_PER_S[generation] * lanes


def hidden_state_bytes(n_embd: int, tokens: int = 1) -> int:
    """Bytes that cross a layer boundary for `tokens` tokens.

    Source: llama.cpp in llama-cpp-python 0.3.36 passes the residual stream as F32 between split inputs
    (src/llama-graph.cpp build_inp_embd, ggml/src/ggml-backend.cpp ggml_backend_sched_compute_splits).
    """
    return F32_BYTES * n_embd * tokens
