"""What each backend's buffers are like: alignment, padding, naming and abilities, one table row a backend."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from service.core.types import Backend, TensorType
from service.core.units import GIB, pad

HOST_BUFFER_TYPE: Final = "CPU"
"""Name of plain host memory in `-ot` and in logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferRules:
    """How a backend's default buffer type sizes tensors and what its devices can do.

    name: of device 0's buffer type with `{}` for the index, as `-ot` and logs spell it.
    alignment_bytes: every tensor's size is rounded up to it.
    quantised_row_multiple: a quantised tensor whose rows are not a multiple of so many elements gets the
    missing part of one row added, once; None for backends that add nothing.
    max_buffer_bytes: longer weight buffers are split into several; their sum is unchanged.
    pinned_host_buffer: whether host tensors lie in memory pinned for this device.
    offloads_ops: whether large batches on host weights are computed on the device (--op-offload).
    pipelines: asynchronous with events, so that pipeline parallelism is possible.
    splits_rows: whether `-sm row` exists for it in the newest llama.cpp; split_rows_once: whether it ever did
    (versions.py has the date of its removal).
    reports_integrated: whether integrated cards are told from discrete ones.
    registry_rank: order in which llama.cpp lists backends; RPC servers come before all local devices.
    """

    name: str
    alignment_bytes: int
    quantised_row_multiple: int | None = None
    max_buffer_bytes: int | None = None
    pinned_host_buffer: bool
    offloads_ops: bool
    pipelines: bool = True
    splits_rows: bool = False
    split_rows_once: bool = False
    reports_integrated: bool = True
    registry_rank: int

    def allocated_bytes(self, tensor_type: TensorType, ne0: int, size_bytes: int) -> int:
        """Bytes a tensor of `size_bytes` with rows of `ne0` elements takes in a buffer of this kind."""
        multiple = self.quantised_row_multiple
        if multiple is not None and tensor_type.block_elements > 1 and ne0 % multiple:
            size_bytes += tensor_type.row_bytes(multiple - ne0 % multiple)
        return pad(size_bytes, self.alignment_bytes)


BUFFER_RULES: Final[Mapping[Backend, BufferRules]] = MappingProxyType(
    {
        # plain host memory, also pinned (CUDA_Host) and repacked: TENSOR_ALIGNMENT
        "cpu": BufferRules(
            name=HOST_BUFFER_TYPE,
            alignment_bytes=32,
            pinned_host_buffer=False,
            offloads_ops=False,
            pipelines=False,
            registry_rank=9,
        ),
        "cuda": BufferRules(
            name="CUDA{}",
            alignment_bytes=128,
            quantised_row_multiple=512,
            pinned_host_buffer=True,
            offloads_ops=True,
            split_rows_once=True,
            registry_rank=1,
        ),
        "rocm": BufferRules(
            name="ROCm{}",
            alignment_bytes=128,
            quantised_row_multiple=512,
            pinned_host_buffer=True,
            offloads_ops=True,
            split_rows_once=True,
            registry_rank=2,
        ),
        "metal": BufferRules(
            name="MTL{}",
            alignment_bytes=32,
            pinned_host_buffer=False,
            offloads_ops=True,
            reports_integrated=False,
            registry_rank=3,
        ),
        "sycl": BufferRules(
            name="SYCL{}",
            alignment_bytes=128,
            quantised_row_multiple=512,
            pinned_host_buffer=True,
            offloads_ops=True,
            splits_rows=True,
            split_rows_once=True,
            registry_rank=4,
        ),
        # minStorageBufferOffsetAlignment is the driver's: 4 to 64; tensors in GGUF files are multiples of 32
        "vulkan": BufferRules(
            name="Vulkan{}",
            alignment_bytes=32,
            max_buffer_bytes=GIB,
            pinned_host_buffer=True,
            offloads_ops=True,
            registry_rank=5,
        ),
        # as the server's own backend; these numbers are those of a server that computes on a CPU
        "rpc": BufferRules(
            name="RPC{}",
            alignment_bytes=32,
            pinned_host_buffer=False,
            offloads_ops=False,
            reports_integrated=False,
            registry_rank=0,
        ),
    }
)
"""Buffer rules by backend.

Source, all of llama.cpp in llama-cpp-python 0.3.36 (ggml 0.25.3): ggml/src/ggml-impl.h:44 (TENSOR_ALIGNMENT) and
ggml-backend.cpp:2474 (CPU); ggml-cuda/ggml-cuda.cu:897-921, 5116-5128, 5651 (CUDA and, built for HIP, ROCm);
ggml-metal/ggml-metal.cpp:269-282, 695-700, 774; ggml-sycl/ggml-sycl.cpp:1021-1062, 6368-6380, 6863;
ggml-vulkan/ggml-vulkan.cpp:13034-13048, 4213-4218, 15285-15290, 15973; ggml-rpc/ggml-rpc.cpp:828-929, 2186-2198,
2258-2262; order and RPC first: ggml-backend-reg.cpp:121-172, src/llama.cpp:275-285; row split:
src/llama-model.cpp:1147-1164; integrated cards: ggml-cuda.cu:5096-5105, ggml-vulkan.cpp:15271, ggml-sycl.cpp:6353,
ggml-metal.cpp:682.
"""


def buffer_rules(backend: Backend) -> BufferRules:
    """Rules of a backend's default buffer type."""
    return BUFFER_RULES[backend]


HOST_RULES: Final = BUFFER_RULES["cpu"]
"""Rules of host memory."""
