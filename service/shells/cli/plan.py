"""`rigfit plan`: a model and flags as llama.cpp spells them, or requests as JSON."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from service.core.problems import InvalidRequest, PlanProblem
from service.shells.cli.problems import exit_on_problem

STDIN = "-"
_TRUE = {"on", "enabled", "true", "1"}
_FALSE = {"off", "disabled", "false", "0"}
_ALL_BLOCKS = 1_000_000

Text = str | None
Number = int | None


def plan(  # noqa: PLR0913 - one parameter per flag of the command line
    model: Annotated[Text, typer.Argument(help="Catalogue name:quant, an id (sha256:…) or a GGUF file.")] = None,
    *,
    gpu: Annotated[list[str] | None, typer.Option("--gpu", help="A card, or several: '2x rtx-3090'.")] = None,
    ctx_size: Annotated[Number, typer.Option("-c", "--ctx-size", help="Context in tokens; default: what fits.")] = None,
    parallel: Annotated[Number, typer.Option("-np", "--parallel", help="Streams at once.")] = None,
    prompt_tokens: Annotated[Number, typer.Option(help="Tokens of the prompt.")] = None,
    cached_tokens: Annotated[Number, typer.Option(help="Tokens in the cache before the prompt.")] = None,
    output_tokens: Annotated[Number, typer.Option(help="Tokens to generate.")] = None,
    n_gpu_layers: Annotated[Text, typer.Option("-ngl", "--gpu-layers", "--n-gpu-layers", metavar="N|all|auto")] = None,
    split_mode: Annotated[Text, typer.Option("-sm", "--split-mode", metavar="none|layer|row|tensor")] = None,
    tensor_split: Annotated[Text, typer.Option("-ts", "--tensor-split", metavar="N0,N1,…")] = None,
    main_gpu: Annotated[Number, typer.Option("-mg", "--main-gpu")] = None,
    n_batch: Annotated[Number, typer.Option("-b", "--batch-size")] = None,
    n_ubatch: Annotated[Number, typer.Option("-ub", "--ubatch-size")] = None,
    flash_attn: Annotated[Text, typer.Option("-fa", "--flash-attn", metavar="on|off|auto")] = None,
    cache_type_k: Annotated[Text, typer.Option("-ctk", "--cache-type-k")] = None,
    cache_type_v: Annotated[Text, typer.Option("-ctv", "--cache-type-v")] = None,
    kv_unified: Annotated[bool | None, typer.Option("-kvu/-no-kvu", "--kv-unified/--no-kv-unified")] = None,
    swa_full: Annotated[bool, typer.Option("--swa-full")] = False,
    no_kv_offload: Annotated[bool, typer.Option("-nkvo", "--no-kv-offload")] = False,
    override_tensor: Annotated[
        list[str] | None, typer.Option("-ot", "--override-tensor", metavar="PATTERN=TYPE")
    ] = None,
    n_cpu_moe: Annotated[Number, typer.Option("-ncmoe", "--n-cpu-moe")] = None,
    cpu_moe: Annotated[bool, typer.Option("-cmoe", "--cpu-moe")] = False,
    tool: Annotated[Text, typer.Option(help="llama-server or llama-bench.")] = None,
    engine_version: Annotated[Text, typer.Option(help="llama.cpp build, for example b8829.")] = None,
    engine_date: Annotated[Text, typer.Option(help="Date of the build, at least YYYY-MM.")] = None,
    ram_bytes: Annotated[Number, typer.Option(help="Main memory in bytes.")] = None,
    ram_bandwidth: Annotated[float | None, typer.Option(help="Main memory bandwidth in bytes per second.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    request: Annotated[Text, typer.Option("--request", metavar="FILE|-", help="One PlanRequest as JSON.")] = None,
    requests: Annotated[Text, typer.Option("--requests", metavar="FILE|-", help="PlanRequests as JSON Lines.")] = None,
) -> None:
    """Plan a model on a rig: where every byte goes, whether it fits, how fast it will run."""
    if requests is not None:
        _answer_lines(requests)
        return
    if request is not None:
        with exit_on_problem(as_json=True):
            _answer_one(request)
        return
    if model is None:
        sys.stderr.write("rigfit: name a model, or give --request or --requests; see rigfit plan --help\n")
        sys.exit(2)
    engine = {
        "n_gpu_layers": _layers(n_gpu_layers),
        "split_mode": split_mode,
        "tensor_split": tensor_split and [_number(part) for part in tensor_split.replace("/", ",").split(",")],
        "main_gpu": main_gpu,
        "n_batch": n_batch,
        "n_ubatch": n_ubatch,
        "flash_attn": _switch(flash_attn),
        "cache_type_k": cache_type_k,
        "cache_type_v": cache_type_v,
        "kv_unified": kv_unified,
        "swa_full": swa_full or None,
        "kv_offload": False if no_kv_offload else None,
        "override_tensor": override_tensor or None,
        "n_cpu_moe": _ALL_BLOCKS if cpu_moe else n_cpu_moe,
        "tool": tool,
        "version": engine_version,
        "date": engine_date,
    }
    workload = {
        "context_tokens": ctx_size,
        "parallel": parallel,
        "prompt_tokens": prompt_tokens,
        "cached_tokens": cached_tokens,
        "output_tokens": output_tokens,
    }
    host = {"ram_bytes": ram_bytes, "ram_bandwidth_bytes_per_s": ram_bandwidth}
    question = {
        "model": {"path": model} if model.endswith(".gguf") and Path(model).is_file() else model,
        "rig": {"gpus": gpu or [], "host": _given(host)},
        "workload": _given(workload),
        "engine": _given(engine),
    }
    with exit_on_problem(as_json=as_json):
        _answer_flags(question, as_json=as_json)


def _answer_flags(question: dict[str, Any], *, as_json: bool) -> None:
    from service.contract.validation import validate_request  # noqa: PLC0415
    from service.planning.local import local_planner  # noqa: PLC0415

    answer = local_planner().plan(validate_request(question))
    if as_json:
        sys.stdout.write(answer.model_dump_json() + "\n")
        return
    from service.shells.cli.table import print_plan  # noqa: PLC0415

    print_plan(answer)


def _answer_one(source: str) -> None:
    from service.contract.validation import parse_request  # noqa: PLC0415
    from service.planning.local import local_planner  # noqa: PLC0415

    with _opened(source) as stream:
        raw = stream.read()
    sys.stdout.write(local_planner().plan(parse_request(raw)).model_dump_json() + "\n")


def _answer_lines(source: str) -> None:
    """Answer each line as soon as it is read."""
    with exit_on_problem(as_json=False), _opened(source) as stream:
        for answer in _answers(stream):
            sys.stdout.buffer.write(answer + b"\n")
            sys.stdout.buffer.flush()


def _answers(lines: BinaryIO) -> Iterator[bytes]:
    from service.contract.problem import problem_of  # noqa: PLC0415
    from service.contract.validation import parse_request  # noqa: PLC0415
    from service.planning.local import local_planner  # noqa: PLC0415

    planner = local_planner()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield b'{"plan":' + planner.plan(parse_request(line)).model_dump_json().encode() + b"}"
        except PlanProblem as refused:
            answer = problem_of(refused, instance=f"line {number}")
            yield b'{"problem":' + answer.model_dump_json(exclude_defaults=True).encode() + b"}"


def _opened(source: str) -> BinaryIO:
    """Open a file or the standard input.

    Raises InvalidRequest where the file cannot be read.
    """
    if source == STDIN:
        return sys.stdin.buffer
    try:
        return Path(source).open("rb")
    except OSError as error:
        raise InvalidRequest(f"{source} cannot be read: {error.strerror}.") from None


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _layers(text: str | None) -> int | str | None:
    """A layer count as a number; words are the contract's to judge."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        return text


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _switch(text: str | None) -> bool | str | None:
    """Read on, off or auto as llama.cpp does (common/arg.cpp is_truthy, is_falsey, is_autoy)."""
    if text in (None, "auto", "-1"):
        return None
    return True if text in _TRUE else False if text in _FALSE else text
