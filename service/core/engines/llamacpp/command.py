"""Command lines that run a plan with llama.cpp, and that measure it."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.cache_types import DEFAULT_CACHE_TYPE
from service.core.engines.llamacpp.companion_flags import companion_flags
from service.core.engines.llamacpp.companions import ALONE, Companions
from service.core.engines.llamacpp.devices import engine_devices, listed_devices
from service.core.engines.llamacpp.overrides import buffer_type_names
from service.core.engines.llamacpp.settings import LlamaCppSettings, OverrideTensor
from service.core.engines.llamacpp.versions import VersionRules, version_rules
from service.core.types import Model, Rig, Workload

DEFAULT_BATCH_TOKENS: Final = 2048
DEFAULT_UBATCH_TOKENS: Final = 512
RPC_PORT: Final = 50052
"""Port ggml-rpc-server listens on unless told otherwise (tools/rpc/rpc-server.cpp)."""

_ALL_LAYERS: Final = "999"
"""What -ngl takes for all layers in builds that do not know the word "all"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """How to run a plan: arguments, environment, both as one line for a shell, and a line that measures it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    text: str
    verify: str


def command_of(
    model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload, companions: Companions = ALONE
) -> CommandLine:
    """Command for `settings` with no gap left; a context of None is the trained one.

    Flags are given where they differ from the default, and where the default would let llama.cpp decide otherwise: the
    context, the number of streams, the layers, and --fit. File names and addresses of RPC servers are placeholders.
    What measures the plan measures the model without what runs beside it, which llama-bench does not know.
    Source: common/arg.cpp, tools/llama-bench/llama-bench.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    bench = ("llama-bench", *_bench_flags(model, rig, settings, workload))
    beside = companion_flags(companions, _file_name, lambda override: _entry(override, rig), has_cards=bool(rig.gpus))
    server = ("llama-server", *_server_flags(model, rig, settings, workload), *beside)
    argv = server if settings.tool == "llama-server" else bench
    env = _environment(rig)
    return CommandLine(
        argv=argv,
        env=env,
        text=_shell_line(env, argv),
        verify=_shell_line(env, (*bench, "-o", "json")),
    )


_quoted = lru_cache(maxsize=4096)(shlex.quote)
"""Most words of command lines are the same few flags."""


def _shell_line(env: Mapping[str, str], argv: tuple[str, ...]) -> str:
    return " ".join([*(f"{name}={_quoted(value)}" for name, value in env.items()), *map(_quoted, argv)])


def _environment(rig: Rig) -> Mapping[str, str]:
    """Unlike NVIDIA cards are numbered fastest first unless told otherwise; by bus is the order nvidia-smi lists."""
    cuda = {gpu.slug for gpu in rig.gpus if gpu.backend == "cuda"}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if len(cuda) > 1 else {}


def _server_flags(model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload) -> Iterator[str]:
    rules = version_rules(settings.version, settings.date)
    hp = read_hparams(model)
    yield from ("-m", _file_name(model))
    yield from _rpc_flags(rig, "--rpc")
    yield from ("-c", str(hp.n_ctx_train if workload.context_tokens is None else workload.context_tokens))
    yield from ("-np", str(workload.parallel))
    if settings.kv_unified and rules.has("separate_streams"):
        yield "-kvu"
    if rig.gpus:
        yield from ("-ngl", _layers(settings, rules))
    yield from _device_flags(rig, settings, ",")
    yield from _split_flags(settings, ",")
    yield from _batch_flags(settings)
    yield from _flash_attention_flags(settings, rules)
    yield from _cache_flags(settings)
    if settings.swa_full:
        yield "--swa-full"
    if not settings.kv_offload:
        yield "-nkvo"
    if settings.override_tensor:
        yield from ("-ot", ",".join(_entry(override, rig) for override in settings.override_tensor))
    if settings.n_cpu_moe:
        yield from ("-ncmoe", str(min(settings.n_cpu_moe, hp.n_layer_all)))
    if rules.has("fit_by_default"):
        yield from ("-fit", "off")


def _bench_flags(model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload) -> Iterator[str]:
    """The same for llama-bench, whose lists are separated otherwise and which knows no streams."""
    rules = version_rules(settings.version, settings.date)
    yield from ("-m", _file_name(model))
    yield from _rpc_flags(rig, "-rpc")
    yield from ("-p", str(workload.prompt_tokens), "-n", str(workload.output_tokens))
    depths = _depths(workload)
    if depths != "0":
        yield from ("-d", depths)
    if rig.gpus and settings.n_gpu_layers not in (None, "all"):
        yield from ("-ngl", _layers(settings, rules))
    if rules.has("bench_device_list"):
        yield from _device_flags(rig, settings, "/")
    yield from _split_flags(settings, "/")
    yield from _batch_flags(settings)
    if settings.flash_attn is not None:
        on, off = ("on", "off") if rules.has("flash_attn_auto") else ("1", "0")
        yield from ("-fa", on if settings.flash_attn else off)
    yield from _cache_flags(settings)
    if not settings.kv_offload:
        yield from ("-nkvo", "1")
    if settings.override_tensor:
        yield from ("-ot", ";".join(_entry(override, rig) for override in settings.override_tensor))
    if settings.n_cpu_moe:
        yield from ("-ncmoe", str(min(settings.n_cpu_moe, read_hparams(model).n_layer_all)))


def _depths(workload: Workload) -> str:
    """Depths to measure at: the prompt's, and that of the answer behind it where both tests still fit the context."""
    prompt_depth = workload.cached_tokens
    answer_depth = prompt_depth + workload.prompt_tokens
    longest = answer_depth + max(workload.prompt_tokens, workload.output_tokens)
    if workload.context_tokens is not None and longest > workload.context_tokens:
        return str(prompt_depth)
    return f"{prompt_depth},{answer_depth}"


@lru_cache(maxsize=1024)
def _file_name(model: Model) -> str:
    """A name as model files have them, "llama-3.3-70b-Q4_K_M.gguf"; "model.gguf" where nothing is known."""
    words = [word for word in (model.name, model.quant) if word]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words)).strip("-.")
    return f"{name or 'model'}.gguf"


def _layers(settings: LlamaCppSettings, rules: VersionRules) -> str:
    if settings.n_gpu_layers in (None, "all"):
        return "all" if rules.has("fit_by_default") else _ALL_LAYERS
    return str(settings.n_gpu_layers)


def _device_flags(rig: Rig, settings: LlamaCppSettings, separator: str) -> Iterator[str]:
    if settings.devices is not None:
        names = (card.name for card in listed_devices(engine_devices(rig), settings.devices))
        yield from ("-dev", separator.join(names) or "none")


def _split_flags(settings: LlamaCppSettings, separator: str) -> Iterator[str]:
    if settings.split_mode not in (None, "layer"):
        yield from ("-sm", str(settings.split_mode))
    if settings.split_mode == "none" and settings.main_gpu:
        yield from ("-mg", str(settings.main_gpu))
    if settings.tensor_split is not None:
        yield from ("-ts", separator.join(_number(share) for share in settings.tensor_split))


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _batch_flags(settings: LlamaCppSettings) -> Iterator[str]:
    if settings.n_batch != DEFAULT_BATCH_TOKENS:
        yield from ("-b", str(settings.n_batch))
    if settings.n_ubatch != DEFAULT_UBATCH_TOKENS:
        yield from ("-ub", str(settings.n_ubatch))


def _flash_attention_flags(settings: LlamaCppSettings, rules: VersionRules) -> Iterator[str]:
    """Before flash attention was automatic, -fa was a switch without a value, off unless given."""
    if settings.flash_attn is None:
        return
    if rules.has("flash_attn_auto"):
        yield from ("-fa", "on" if settings.flash_attn else "off")
    elif settings.flash_attn:
        yield "-fa"


def _cache_flags(settings: LlamaCppSettings) -> Iterator[str]:
    for flag, cache_type in (("-ctk", settings.cache_type_k), ("-ctv", settings.cache_type_v)):
        if cache_type not in (None, DEFAULT_CACHE_TYPE):
            yield from (flag, str(cache_type))


def _addresses(rig: Rig) -> tuple[str, ...]:
    return tuple(
        f"rpc-server-{index}:{RPC_PORT}" for index, _ in enumerate(gpu for gpu in rig.gpus if gpu.backend == "rpc")
    )


def _rpc_flags(rig: Rig, flag: str) -> Iterator[str]:
    addresses = _addresses(rig)
    if addresses:
        yield from (flag, ",".join(addresses))


def _entry(override: OverrideTensor, rig: Rig) -> str:
    """One -ot entry; a server's buffer type is named by its index there and its address."""
    name = override.buffer_type
    names = [name for name in buffer_type_names([gpu.backend for gpu in rig.gpus]) if name.startswith("RPC")]
    if name in names:
        name = f"RPC0[{_addresses(rig)[names.index(name)]}]"
    return f"{override.pattern}={name}"
