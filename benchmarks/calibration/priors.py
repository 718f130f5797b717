"""What was known of the constants before these measurements: where the fit starts, and how far it may go from there.

A spread is a standard deviation of the constant's logarithm, so 0.1 is about a tenth. Starts are those of the speed
study (3,754 measurements, 63 types of cards; the domain notes on speed), where it has them, else the CUDA values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.core.timing.generations import CUDA_GENERATIONS, TENSOR_CORES


@dataclass(frozen=True, slots=True)
class Prior:
    """Start and spread of a constant; a spread of 0 keeps it."""

    value: float
    spread: float = 0.0


_CUDA: Final = {
    "bandwidth_fraction": Prior(0.92, 0.1),
    "multiprocessor_bytes": Prior(7.0, 0.2),
    "cache_fraction": Prior(1.0),
    "attention_fraction": Prior(0.25, 0.3),
    "unfused_factor": Prior(2.2, 0.5),
    "kernel_s": Prior(5.5e-6, 0.3),
    "expert_kernel_s": Prior(12e-6, 0.6),
    "token_s": Prior(0.12e-3, 0.1),
    "device_s": Prior(0.3e-3, 0.4),
    "old_build_factor": Prior(2.06, 0.2),
    "batch_fraction": Prior(0.6, 0.5),
    # a byte-wise product of four is one operation: what vectors reach is a part of the FP32 rate
    "vector_fraction": Prior(0.35, 0.4),
    "draft_pass_s": Prior(0.3e-3, 0.5),
    "prefill_fraction": Prior(0.9, 0.3),
    "half_precision_factor": Prior(1.4, 0.3),
    "expert_rows": Prior(115.0, 0.3),
    "prefill_attention_fraction": Prior(0.6, 0.4),
    "prefill_unfused_factor": Prior(3.0, 0.4),
    "prefill_kernel_s": Prior(6e-6, 0.4),
    "prompt_s": Prior(0.5e-3, 0.4),
    "ubatch_device_s": Prior(0.4e-3, 0.4),
    "pipelined_fraction": Prior(0.78, 0.1),
    "slow_2023_factor": Prior(1.7, 0.3),
    "slow_2024_factor": Prior(1.2, 0.2),
    "slow_2025_factor": Prior(1.05, 0.05),
    # 31B over two RTX 4090: 33 us a meeting; 27B over four RTX 3090: 132 us (pull request 19378; cases)
    "reduction_s": Prior(8e-6, 0.4),
    "reduction_card_s": Prior(14e-6, 0.4),
    "staged_bytes_per_s": Prior(11e9, 0.1),
    # 27B over pairs with builds of August 2026: 9 us (RTX 5090), 23 (RTX 5060 Ti), 31 (A5000), where it took 41 before
    "pair_s": Prior(20e-6, 0.4),
    # mixtures over two RTX 4090: nothing to 30 us a layer of three stacks beyond their meetings (pull request 19378)
    "expert_slice_s": Prior(3e-6, 0.4),
    "row_s": Prior(96e-6, 0.15),
    "row_bytes_per_s": Prior(3e9, 0.8),
}
_OTHER_REDUCTIONS: Final = {
    # tensor split with two cards: 20 to 30 us under ROCm, 22 under SYCL, 85 to 155 under Vulkan (speed study)
    "rocm": {"reduction_s": Prior(11e-6, 0.4), "reduction_card_s": Prior(7e-6, 0.4)},
    "sycl": {"reduction_s": Prior(10e-6), "reduction_card_s": Prior(6e-6)},
    "vulkan": {"reduction_s": Prior(60e-6), "reduction_card_s": Prior(30e-6)},
    "metal": {"reduction_s": Prior(60e-6), "reduction_card_s": Prior(30e-6)},
}
# Metal: eight rows of a 27B model take 6.5 times one on an M4 (github.com/sudoingX/qwen38-mtp, sweeps/apple-silicon.md)
_VERIFICATION: Final = {"metal": Prior(0.09, 0.3), "sycl": Prior(0.2, 0.5)}
_STUDY: Final = {
    # bandwidth_fraction, kernel_s, expert_kernel_s, prefill_fraction, expert_rows
    "metal": (0.83, 13e-6, 30e-6, 0.45, 30.0),
    "rocm": (0.84, 15e-6, 18e-6, 0.4, 75.0),
    "vulkan": (0.86, 7e-6, 25e-6, 0.25, 49.0),
    "sycl": (0.68, 15e-6, 60e-6, 0.5, 75.0),
}
_OTHERS: Final = {
    "multiprocessor_bytes": Prior(0.0),
    "cache_fraction": Prior(0.9, 0.1),
    "attention_fraction": Prior(0.1, 0.5),
    "unfused_factor": Prior(5.0, 0.5),
    "token_s": Prior(0.12e-3, 0.1),
    "device_s": Prior(0.5e-3, 0.5),
    "old_build_factor": Prior(1.6, 0.3),
    "batch_fraction": Prior(0.5, 0.5),
    "half_precision_factor": Prior(1.0, 0.3),
    "prefill_attention_fraction": Prior(0.4, 0.6),
    "prefill_unfused_factor": Prior(3.0, 0.5),
    "prefill_kernel_s": Prior(10e-6, 0.4),
    "slow_2023_factor": Prior(1.7, 0.2),
    "slow_2024_factor": Prior(1.2, 0.2),
    "slow_2025_factor": Prior(1.3, 0.4),
}
# What prompts reach, by the kernels that a backend has.
# ROCm: matrix units, llama.cpp's own kernels. 17 of 59.4 TFLOPS on RDNA 3.5, 33 of 123 on RDNA 3 (llama.cpp pull
# requests 18666 and 17576); without them integer dot products, 27 of 41 TFLOPS on RDNA 2 (12135).
# Vulkan: integer dot products, 30 of 41 TFLOPS on RDNA 2, twice what 16-bit products reach (12135).
# SYCL: oneDNN, 59 of 39 TFLOPS of the lanes of an Arc A770 by its matrix units (ollama pull request 2458).
# Blocks not laid out anew: 1.25 to 1.9 for Q2_K (llama.cpp pull requests 25064 and 26336), 3.1 for Q8_0 (21527).
# Attention: the lower end of the range of the study, 0.2 of what prompts reached there, as no matrix units compute it.
_KERNELS: Final = {
    "metal": {},
    "rocm": {
        "matrix_fraction": Prior(0.3, 0.3),
        "prefill_fraction": Prior(0.65, 0.3),
        "prefill_attention_fraction": Prior(0.2, 0.5),
    },
    "vulkan": {
        "prefill_fraction": Prior(0.65, 0.3),
        "superblock_factor": Prior(2.0, 0.2),
        "prefill_attention_fraction": Prior(0.2, 0.5),
    },
    "sycl": {
        "unordered_factor": Prior(1.4, 0.2),
        "scattered_factor": Prior(3.1, 0.2),
        "prefill_fraction": Prior(1.5, 0.2),
        "unpacking_fraction": Prior(1.0, 0.3),
        "prefill_attention_fraction": Prior(0.07, 0.5),
    },
}
# Builds before: rocBLAS has 4.5 of 59.4 TFLOPS on RDNA 3.5 (ROCm/legacy-rocm-build issue 4748), and kernels for others;
# Vulkan with small tiles has 1 / 1.36, 1 / 1.50 and 1 / 1.76 by type (llama.cpp pull request 18749); SYCL with 32-bit
# floats 1 / 2.43 (23996).
_SMALL_TILES: Final = Prior(1 / 1.53, 0.15)
_WIDE_FLOATS: Final = Prior(1 / 2.43, 0.15)
_UNTUNED: Final = {
    "rocm": {"RDNA 3.5": Prior(4.5 / 59.4 / 0.3, 0.3), "RDNA 4.0": Prior(1.0, 0.2)},
    "sycl": {"Xe-HPG": _WIDE_FLOATS, "Xe2-HPG": _WIDE_FLOATS},
    "vulkan": {"RDNA 3.0": _SMALL_TILES, "RDNA 3.5": _SMALL_TILES, "RDNA 4.0": _SMALL_TILES},
}
# 68 TFLOPS of an RTX 3090, whose lanes have 36 (llama.cpp pull request 12135)
_TENSOR_CORES_FACTOR: Final = Prior(68 / 71 / 0.65, 0.2)
_PROCESSOR: Final = {
    "bandwidth_fraction": Prior(0.46, 0.4),
    "cache_fraction": Prior(0.5),
    "kernel_s": Prior(2e-6),
    "expert_kernel_s": Prior(4e-6),
    "token_s": Prior(1e-6),
    "device_s": Prior(1e-6),
    "old_build_factor": Prior(1.0),
    "prefill_fraction": Prior(0.4, 0.5),
    "half_precision_factor": Prior(0.6, 0.4),
    "expert_rows": Prior(30.0),
    "core_weights_per_s": Prior(28e9, 0.4),
    "codebook_factor": Prior(2.0, 0.4),
    "repacked_factor": Prior(0.7, 0.4),
    "prompt_s": Prior(1e-6),
    "prefill_kernel_s": Prior(2e-6),
}

# bandwidth, prefill, operations per joule: shares of the study (Turing 0.68, Pascal 0.67) against 0.92 for all others.
# Operations per joule follow the process: 12 nm, 8 nm, 7 nm, 5 nm; of Pascal and P100 nothing is known.
_CUDA_GENERATIONS: Final = {
    "Pascal": (Prior(0.73, 0.1), Prior(0.6, 0.3), Prior(0.0)),
    "P100": (Prior(0.73, 0.1), Prior(0.6, 0.3), Prior(0.0)),
    "Turing": (Prior(0.74, 0.1), Prior(0.9, 0.15), Prior(0.17e12, 0.15)),
    "A100": (Prior(1.0, 0.05), Prior(1.7, 0.12), Prior(0.5e12, 0.15)),
    "Ampere": (Prior(1.0, 0.05), Prior(1.0, 0.12), Prior(0.24e12, 0.15)),
    "Ada": (Prior(1.0, 0.05), Prior(1.0, 0.12), Prior(0.37e12, 0.15)),
    "Hopper": (Prior(1.0, 0.05), Prior(1.7, 0.12), Prior(0.5e12, 0.15)),
    "Blackwell": (Prior(1.0, 0.05), Prior(1.0, 0.12), Prior(0.5e12, 0.15)),
}
SHARED_POWER_PRIOR: Final = Prior(0.55, 0.2)
_GENERATION_SPREAD, _GENERATION_PREFILL_SPREAD = 0.1, 0.3


def priors(generations: Mapping[str, frozenset[str]]) -> dict[str, Prior]:
    """Priors of all constants by name; generations: those that were measured, by backend other than CUDA."""
    found: dict[str, Prior] = {f"cuda.{name}": prior for name, prior in _CUDA.items()}
    for backend, study in _STUDY.items():
        fraction, kernel_s, expert_kernel_s, prefill, rows = study
        rows_of = {
            **_CUDA,
            **_OTHERS,
            "bandwidth_fraction": Prior(fraction, 0.1),
            "kernel_s": Prior(kernel_s, 0.3),
            "expert_kernel_s": Prior(expert_kernel_s, 0.5),
            "prefill_fraction": Prior(prefill, 0.5),
            "expert_rows": Prior(rows, 0.4),
            **_OTHER_REDUCTIONS[backend],
            **_KERNELS[backend],
            **({"vector_fraction": _VERIFICATION[backend]} if backend in _VERIFICATION else {}),
        }
        found |= {f"{backend}.{name}": prior for name, prior in rows_of.items()}
    found |= {f"cpu.{name}": prior for name, prior in {**_CUDA, **_OTHERS, **_PROCESSOR}.items()}
    for label, (bandwidth, prefill_factor, per_joule) in _CUDA_GENERATIONS.items():
        found[f"cuda/{label}.reading_factor"] = bandwidth
        found[f"cuda/{label}.prefill_factor"] = prefill_factor
        found[f"cuda/{label}.flops_per_j"] = per_joule
    for backend, labels in generations.items():
        for label in sorted(labels):
            found[f"{backend}/{label}.reading_factor"] = Prior(1.0, _GENERATION_SPREAD)
            usual = Prior(1.0, _GENERATION_PREFILL_SPREAD)
            found[f"{backend}/{label}.prefill_factor"] = _TENSOR_CORES_FACTOR if label == TENSOR_CORES else usual
    for backend, untuned in _UNTUNED.items():
        found |= {f"{backend}/{label}.untuned_factor": prior for label, prior in untuned.items()}
    found["shared_power_fraction"] = SHARED_POWER_PRIOR
    assert set(_CUDA_GENERATIONS) == {generation.label for generation in CUDA_GENERATIONS}
    return found
