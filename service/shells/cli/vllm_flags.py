"""Flags of `rigfit plan` about vLLM, spelled as `vllm serve` spells them (engine/arg_utils.py of vLLM 0.33.0)."""

from typing import Annotated, Any, Final

import typer

_Text = str | None
_Whole = int | None
_Number = float | None
_Switch = bool | None
# name of the parameter → its type and how it is spelled
FLAGS: Final[dict[str, Any]] = {
    "engine_name": Annotated[_Text, typer.Option("--engine", metavar="llama.cpp|vllm", help="The engine.")],
    "tensor_parallel_size": Annotated[
        _Whole, typer.Option("-tp", "--tensor-parallel-size", help="vLLM: cards that share every layer.")
    ],
    "pipeline_parallel_size": Annotated[
        _Whole, typer.Option("-pp", "--pipeline-parallel-size", help="vLLM: stages of consecutive layers.")
    ],
    "data_parallel_size": Annotated[
        _Whole, typer.Option("-dp", "--data-parallel-size", help="vLLM: copies that serve side by side.")
    ],
    "pp_layer_partition": Annotated[
        _Text, typer.Option("--pp-layer-partition", metavar="N0,N1,…", help="vLLM: layers of each stage.")
    ],
    "gpu_memory_utilization": Annotated[
        _Number, typer.Option("--gpu-memory-utilization", help="vLLM: share of each card's memory it may use.")
    ],
    "max_model_len": Annotated[_Whole, typer.Option("--max-model-len", help="vLLM: longest request in tokens.")],
    "max_num_batched_tokens": Annotated[
        _Whole, typer.Option("--max-num-batched-tokens", help="vLLM: tokens of one step.")
    ],
    "max_num_seqs": Annotated[_Whole, typer.Option("--max-num-seqs", help="vLLM: requests of one step.")],
    "kv_cache_dtype": Annotated[_Text, typer.Option("--kv-cache-dtype", help="vLLM: type of the KV cache.")],
    "enforce_eager": Annotated[_Switch, typer.Option("--enforce-eager", help="vLLM: no CUDA graphs.")],
    "cpu_offload_gib": Annotated[
        _Number, typer.Option("--cpu-offload-gb", help="vLLM: GiB of each card's weights in the host's memory.")
    ],
    "enable_expert_parallel": Annotated[
        _Switch, typer.Option("--enable-expert-parallel", "-ep", help="vLLM: distribute whole experts.")
    ],
}


def engine_of(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given as parts of a request's engine, for the contract to refuse with another engine."""
    stated = {name: flags[name] for name in FLAGS if name != "engine_name" and flags.get(name) is not None}
    if flags.get("engine_name") is not None:
        stated["name"] = flags["engine_name"]
    if "pp_layer_partition" in stated:
        stated["pp_layer_partition"] = [_whole(part) for part in stated["pp_layer_partition"].split(",")]
    return stated


def _whole(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() else text
