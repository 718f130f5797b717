"""Widths of the ranges of the speed model, as `benchmarks/calibrate.py` found them."""

from collections.abc import Mapping
from typing import Final

from service.core.timing.figures import Range

RANGES: Final[Mapping[str, Range]] = {
    "cpu.serial.decode": Range(0.536, 28, 0.89, 0.00),
    "cpu.serial.prefill": Range(0.972, 28, 0.86, 0.00),
    "cuda.layer.decode": Range(0.073, 173, 0.88, 0.83),
    "cuda.layer.prefill": Range(0.387, 176, 0.86, 0.81),
    "cuda.one.decode": Range(0.122, 192, 0.83, 0.83),
    "cuda.one.prefill": Range(0.366, 176, 0.84, 0.84),
    "cuda.row.decode": Range(0.454, 40, 0.90, 1.00),
    "cuda.row.prefill": Range(3.864, 40, 0.93, 1.00),
    "cuda.serial.decode": Range(0.100, 365, 0.86, 0.83),
    "cuda.serial.prefill": Range(0.370, 352, 0.85, 0.82),
    "cuda.serial.speculation": Range(0.116, 21, 1.00, 0.76),
    "cuda.serial.streams": Range(0.287, 67, 0.87, 1.00),
    "cuda.tensor.decode": Range(0.105, 8, 1.00, 1.00),
    "cuda.tensor.prefill": Range(3.538, 12, 0.33, 1.00),
    "cuda.tensor.speculation": Range(0.071, 5, 1.00, 1.00),
    "metal.serial.decode": Range(0.225, 66, 0.88, 0.03),
    "metal.serial.prefill": Range(0.232, 68, 0.94, 0.01),
    "metal.serial.streams": Range(0.290, 61, 0.82, 0.00),
    "rocm.one.decode": Range(0.192, 56, 0.86, 0.09),
    "rocm.one.prefill": Range(0.486, 48, 0.90, 0.08),
    "rocm.serial.decode": Range(0.186, 65, 0.88, 0.08),
    "rocm.serial.prefill": Range(0.519, 57, 0.88, 0.07),
    "sycl.serial.decode": Range(0.264, 40, 0.85, 0.00),
    "sycl.serial.prefill": Range(0.740, 33, 0.85, 0.00),
    "vulkan.one.decode": Range(0.233, 48, 0.83, 0.15),
    "vulkan.one.prefill": Range(1.310, 48, 0.83, 0.21),
    "vulkan.serial.decode": Range(0.280, 59, 0.78, 0.12),
    "vulkan.serial.prefill": Range(1.308, 59, 0.78, 0.17),
    "vulkan.serial.speculation": Range(0.263, 8, 1.00, 0.00),
}
