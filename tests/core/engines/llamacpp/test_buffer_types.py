"""Sizes of tensors in the buffers of each backend."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.llamacpp.buffer_types import BUFFER_RULES, buffer_rules
from service.core.tensor_types import TENSOR_TYPES
from service.core.types import Backend

Q8_0 = TENSOR_TYPES[8]
Q4_K = TENSOR_TYPES[12]
F32 = TENSOR_TYPES[0]


def test_every_backend_of_the_contract_has_rules() -> None:
    """No backend a card may name lacks a row."""
    assert set(BUFFER_RULES) == set(get_args(Backend))


def test_cuda_pads_the_last_row_of_a_quantised_tensor_to_512_elements() -> None:
    """Rows of 1,600 q8_0 values lack 448 to the next 512: 448 / 32 blocks of 34 bytes are added once."""
    size_bytes = Q8_0.row_bytes(1600) * 10
    assert buffer_rules("cuda").allocated_bytes(Q8_0, 1600, size_bytes) == -(-(size_bytes + 14 * 34) // 128) * 128


def test_cuda_adds_nothing_to_rows_of_whole_512_or_to_floats() -> None:
    """Rows that are a multiple of 512, and unquantised tensors, cost only alignment."""
    assert buffer_rules("cuda").allocated_bytes(Q4_K, 4096, 144 * 16 * 8) == 144 * 16 * 8
    assert buffer_rules("cuda").allocated_bytes(F32, 7, 28) == 128


def test_a_server_on_a_cpu_aligns_as_the_cpu_does() -> None:
    """RPC devices of the golden files: 32 bytes, nothing added to quantised rows."""
    assert buffer_rules("rpc").allocated_bytes(Q8_0, 1600, 34 * 50) == 1728
    assert buffer_rules("rpc").allocated_bytes(F32, 1, 4) == 32


@given(
    backend=st.sampled_from(sorted(BUFFER_RULES)),
    tensor_type=st.sampled_from(sorted(TENSOR_TYPES)).map(TENSOR_TYPES.__getitem__),
    blocks=st.integers(1, 64),
    rows=st.integers(1, 64),
)
def test_buffers_never_hold_less_than_the_tensor(backend: Backend, tensor_type: object, blocks: int, rows: int) -> None:
    """Allocated sizes are aligned, at least the tensor's own and at most one padded row and one alignment more."""
    assert isinstance(tensor_type, type(F32))
    rules = buffer_rules(backend)
    ne0 = blocks * tensor_type.block_elements
    size_bytes = tensor_type.row_bytes(ne0) * rows
    allocated = rules.allocated_bytes(tensor_type, ne0, size_bytes)
    assert allocated % rules.alignment_bytes == 0
    assert size_bytes <= allocated < size_bytes + tensor_type.row_bytes(512) + rules.alignment_bytes
