"""The command that runs a deployment, complete, with variables of the environment only where they apply."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from service.core.engines.vllm.choices import VllmChoice
from service.core.engines.vllm.defaults import default_batch_sizes
from service.core.engines.vllm.reductions import implementation_of
from service.core.engines.vllm.stages import even_partition

MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "CUDA_VISIBLE_DEVICES": "the cards that vLLM sees, by their position; without it the first ones",
        "VLLM_PP_LAYER_PARTITION": "layers of each pipeline stage; without it equal shares",
        "NCCL_P2P_DISABLE": "no peer-to-peer copies between cards, as this machine has none; without it NCCL may hang",
        "--tensor-parallel-size": "cards that share every layer; without it one",
        "--pipeline-parallel-size": "stages of consecutive layers, one after the other; without it one",
        "--data-parallel-size": "copies of the model that serve side by side; without it one",
        "--enable-expert-parallel": "whole experts are distributed over the cards; without it each is divided",
        "--max-model-len": "the longest request, prompt and answer together; without it what the model allows",
        "--gpu-memory-utilization": "share of each card's memory that vLLM takes; without it the release's default",
        "--max-num-seqs": "requests in one step; without it by the size of the first card",
        "--max-num-batched-tokens": "tokens in one step, which also cuts prompts; without it by the first card's size",
        "--kv-cache-dtype": "type of keys and values in the cache; without it the model's own",
        "--dtype": "half precision, as these cards have no bfloat16; without it the checkpoint's own",
        "--enforce-eager": "no CUDA graphs, which saves their memory and costs speed; without it they are captured",
        "--cpu-offload-gb": "GiB of weights of each card that stay in the host's memory; without it none",
        "--disable-custom-all-reduce": "NCCL adds up over the cards, as vLLM's own kernel needs NVLink between all or "
        "peer access between two; without it vLLM warns and does the same",
    }
)
"""What each variable and flag does. Source: engine/arg_utils.py and envs.py (vLLM 0.33.0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmCommand:
    """argv and environment; `text` is both as a shell takes them, `verify` measures what was predicted.

    notes: every variable and flag with what it does.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    verify: str
    notes: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """One line for a shell."""
        return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in self.env.items()), shlex.join(self.argv)])


def command_of(choice: VllmChoice, checkpoint: str) -> VllmCommand:
    """The command of a choice; checkpoint: repository or folder."""
    parts = [*_sizes(choice), *_memory(choice), *_reductions(choice)]
    env = _environment(choice)
    flags = [word for flag, value in parts for word in (flag, value) if word]
    return VllmCommand(
        argv=("vllm", "serve", checkpoint, *flags),
        env=env,
        verify=_verify(choice, checkpoint),
        notes=tuple(_notes(env, parts)),
    )


def _notes(env: Mapping[str, str], parts: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, value in env.items():
        yield f"{name}={value}", MEANINGS[name]
    for flag, value in parts:
        yield f"{flag} {value}".strip(), MEANINGS[flag]


def _sizes(choice: VllmChoice) -> Iterator[tuple[str, str]]:
    layout = choice.deployment.layout
    for flag, size in (
        ("--tensor-parallel-size", layout.tensor_parallel),
        ("--pipeline-parallel-size", layout.pipeline_parallel),
        ("--data-parallel-size", layout.data_parallel),
    ):
        if size > 1:
            yield flag, str(size)
    if layout.expert_parallel:
        yield "--enable-expert-parallel", ""


def _memory(choice: VllmChoice) -> Iterator[tuple[str, str]]:
    settings, run = choice.question.settings, choice.deployment.run
    defaults = default_batch_sizes(choice.question.rig.gpus[0], run.rules)
    yield "--max-model-len", str(choice.request_tokens)
    yield "--gpu-memory-utilization", f"{run.utilization:g}"
    if run.batch.max_num_seqs != defaults.max_num_seqs:
        yield "--max-num-seqs", str(run.batch.max_num_seqs)
    if run.batch.max_num_batched_tokens != defaults.max_num_batched_tokens:
        yield "--max-num-batched-tokens", str(run.batch.max_num_batched_tokens)
    if settings.kv_cache_dtype not in (None, "auto"):
        yield "--kv-cache-dtype", run.kv_cache_dtype
    if run.dtype == "float16":
        yield "--dtype", "float16"
    if run.eager:
        yield "--enforce-eager", ""
    if settings.cpu_offload_gib:
        yield "--cpu-offload-gb", f"{settings.cpu_offload_gib:g}"


def _reductions(choice: VllmChoice) -> Iterator[tuple[str, str]]:
    """What vLLM would switch off by itself, with a warning.

    Source: custom_all_reduce.py:268-283 (0.33.0).
    """
    rig, layout = choice.question.rig, choice.deployment.layout
    cards = layout.cards[: layout.tensor_parallel]
    if len(cards) > 1 and implementation_of(rig, cards) != "custom":
        yield "--disable-custom-all-reduce", ""


def _environment(choice: VllmChoice) -> dict[str, str]:
    layout, rig = choice.deployment.layout, choice.question.rig
    env = {}
    if len(layout.cards) < len(rig.gpus):
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, layout.cards))
    if layout.partition != even_partition(len(choice.question.model.layers), layout.pipeline_parallel):
        env["VLLM_PP_LAYER_PARTITION"] = ",".join(map(str, layout.partition))
    if rig.machine.p2p is False and len(layout.cards) > 1:
        env["NCCL_P2P_DISABLE"] = "1"
    return env


def _verify(choice: VllmChoice, checkpoint: str) -> str:
    workload = choice.question.workload
    return shlex.join(
        [
            "vllm", "bench", "serve", "--model", checkpoint, "--dataset-name", "random",
            "--random-prefix-len", str(workload.cached_tokens), "--random-input-len", str(workload.prompt_tokens),
            "--random-output-len", str(workload.output_tokens), "--max-concurrency", str(workload.parallel),
            "--num-prompts", str(4 * workload.parallel), "--ignore-eos",
        ]
    )  # fmt: skip
