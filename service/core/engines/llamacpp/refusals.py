"""What llama.cpp itself refuses when a model is loaded, as problems that say what to do instead."""

from collections.abc import Sequence
from typing import Final

from service.core.architectures.architecture import Architecture
from service.core.engines.llamacpp.buffer_types import buffer_rules
from service.core.engines.llamacpp.devices import Device
from service.core.engines.llamacpp.overrides import Override
from service.core.engines.llamacpp.settings import LlamaCppSettings, SplitMode
from service.core.engines.llamacpp.slots import CPU, check_weights
from service.core.engines.llamacpp.versions import VersionRules
from service.core.problems import Contradiction, InvalidRequest, Unsupported

MAX_SCHEDULED_DEVICES: Final = 15
"""Cards of one model: the scheduler holds 16 backends and the host is one (GGML_SCHED_MAX_BACKENDS)."""

MAX_JOINT_DEVICES: Final = 16
"""Cards of one joint device in split mode tensor (GGML_BACKEND_META_MAX_DEVICES)."""

MAX_SHARES: Final = 15
"""Values -ts takes: fewer than llama_max_devices(), common/arg.cpp:2840."""


def check_device_count(n_devices: int, split_mode: SplitMode) -> None:
    """Refuse more cards than one model can be spread over.

    Source: ggml/src/ggml-backend.cpp:763 and 1872, ggml/include/ggml-backend.h:360
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    most = MAX_JOINT_DEVICES if split_mode == "tensor" else MAX_SCHEDULED_DEVICES
    if n_devices > most:
        raise Unsupported(
            f"llama.cpp spreads a model over at most {most} cards in split mode {split_mode}, not {n_devices}: leave "
            "cards out",
            fields=("rig.gpus",),
        )


def check_devices(settings: LlamaCppSettings, rules: VersionRules) -> None:
    """Refuse a list of cards where the version cannot be given one.

    Source: pull request 10497.
    """
    if settings.devices is not None and not rules.has("device_list"):
        raise Unsupported(
            f"llama.cpp of {rules.as_of} has no --device, which came in November 2024: leave devices open and give "
            "shares of 0 in tensor_split, or name a later build or date",
            fields=("engine.devices",),
        )


def check_split_mode(split_mode: SplitMode, devices: Sequence[Device], arch: Architecture, rules: VersionRules) -> None:
    """Refuse row and tensor split where the backend, the architecture or the version does not have them.

    Source: src/llama-model.cpp:360 and 1147-1164, src/llama.cpp:161-206, src/llama-arch.cpp:1142-1180
    (llama.cpp in llama-cpp-python 0.3.36); pull requests 19378 and 24216.
    """
    if split_mode == "row":
        _check_row_split(devices, rules)
    if split_mode != "tensor":
        return
    if not rules.has("tensor_split_mode"):
        raise Unsupported(
            f"llama.cpp of {rules.as_of} has no split mode tensor, which came in April 2026: split by layer, or name a "
            "later build or date",
            fields=("engine.split_mode",),
        )
    if not arch.tensor_split:
        raise Unsupported(
            f"llama.cpp does not implement split mode tensor for architecture {arch.name!r}: split by layer",
            fields=("engine.split_mode",),
        )
    if not devices:
        raise Contradiction(
            "split mode tensor needs at least one card, and this rig has none: leave split_mode open",
            fields=("engine.split_mode", "rig.gpus"),
        )


def _check_row_split(devices: Sequence[Device], rules: VersionRules) -> None:
    """Until July 2026 backends without row split ignored the mode; since then they refuse it, CUDA and HIP as well."""
    if not rules.has("no_row_split_on_cuda"):
        return
    for device in devices:
        backend = buffer_rules(device.backend)
        if backend.splits_rows:
            continue
        raise Unsupported(
            f"device {device.name} does not support split buffers: llama.cpp has had no split mode row on "
            f"{device.backend} since July 2026. Split by layer, or by tensor where the architecture allows it"
            + (", or name an earlier build or date" if backend.split_rows_once else ""),
            fields=("engine.split_mode",),
        )


def check_tensor_split(settings: LlamaCppSettings, devices: Sequence[Device]) -> None:
    """Refuse shares whose number is not that of the cards, or that cannot be split by.

    llama.cpp takes missing shares as zero and ignores surplus ones; either way the plan would not be the one meant.
    Source: common/arg.cpp:2831-2855, src/llama-model.cpp:1556-1587 (llama.cpp in llama-cpp-python 0.3.36).
    """
    shares = settings.tensor_split
    if shares is None:
        return
    if len(shares) != len(devices):
        names = ", ".join(device.name for device in devices) or "none"
        raise Contradiction(
            f"tensor_split has {len(shares)} values for {len(devices)} cards ({names}): give one share per card, in "
            "this order, 0 for a card that is to stay empty",
            fields=("engine.tensor_split", "rig.gpus"),
        )
    if len(shares) > MAX_SHARES:
        raise Unsupported(
            f"llama.cpp takes at most {MAX_SHARES} tensor_split values, not {len(shares)}: leave tensor_split open",
            fields=("engine.tensor_split",),
        )
    check_weights(shares)


def check_overrides(
    settings: LlamaCppSettings,
    overrides: Sequence[Override],
    used: Sequence[int],
    split_mode: SplitMode,
    rules: VersionRules,
) -> None:
    """Refuse overrides the version does not have, and those to cards that take no part.

    `used`: indices, among all cards, of those the model is spread over.
    Source: common/arg.cpp:2753-2788, src/llama-model-loader.cpp:1234-1258 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if settings.n_cpu_moe is not None and settings.n_cpu_moe < 0:
        raise InvalidRequest(
            f"n_cpu_moe is {settings.n_cpu_moe}: give the number of blocks, 0 for none", fields=("engine.n_cpu_moe",)
        )
    if settings.n_cpu_moe and not rules.has("n_cpu_moe"):
        raise Unsupported(
            f"llama.cpp of {rules.as_of} has no --n-cpu-moe, which came in August 2025: use override_tensor "
            r"'\.ffn_.*_exps\.=CPU'",
            fields=("engine.n_cpu_moe",),
        )
    for override in overrides:
        if override.target == CPU:
            continue
        if split_mode == "tensor":
            raise Unsupported(
                f"split mode tensor joins the cards to one device, so override_tensor {override.pattern!r} can send "
                "tensors only to CPU",
                fields=("engine.override_tensor", "engine.split_mode"),
            )
        if override.target not in used:
            raise Contradiction(
                f"override_tensor {override.pattern!r} sends tensors to a card that this model does not use: choose "
                "one it uses, or CPU",
                fields=("engine.override_tensor",),
            )
