"""`rigfit plan`: a model and flags as llama.cpp spells them, or requests as JSON."""

import sys
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from service.core.problems import InvalidRequest
from service.shells.cli import flags
from service.shells.cli.problems import PROBLEM_EXIT_STATUS, exit_on_problem
from service.shells.cli.rig_flags import with_machine_flags

STDIN = "-"


@with_machine_flags
def plan(
    model: flags.Model = None,
    *,
    gpus: flags.Gpus = None,
    context_tokens: flags.Context = None,
    parallel: flags.Parallel = None,
    prompt_tokens: flags.Prompt = None,
    cached_tokens: flags.Cached = None,
    output_tokens: flags.Output = None,
    n_gpu_layers: flags.GpuLayers = None,
    split_mode: flags.SplitMode = None,
    tensor_split: flags.TensorSplit = None,
    main_gpu: flags.MainGpu = None,
    devices: flags.Devices = None,
    n_batch: flags.Batch = None,
    n_ubatch: flags.Ubatch = None,
    flash_attn: flags.FlashAttn = None,
    cache_type_k: flags.CacheTypeK = None,
    cache_type_v: flags.CacheTypeV = None,
    kv_unified: flags.KvUnified = None,
    swa_full: flags.SwaFull = False,
    no_kv_offload: flags.NoKvOffload = False,
    override_tensor: flags.OverrideTensor = None,
    n_cpu_moe: flags.NCpuMoe = None,
    cpu_moe: flags.CpuMoe = False,
    fit: flags.Fit = None,
    draft_model: flags.DraftModel = None,
    draft_spec_type: flags.SpecType = None,
    draft_n_max: flags.DraftMax = None,
    draft_acceptance_fraction: flags.DraftAcceptance = None,
    draft_n_gpu_layers: flags.DraftGpuLayers = None,
    draft_cache_type_k: flags.DraftCacheTypeK = None,
    draft_cache_type_v: flags.DraftCacheTypeV = None,
    draft_override_tensor: flags.DraftOverrideTensor = None,
    draft_n_cpu_moe: flags.DraftNCpuMoe = None,
    mmproj: flags.Mmproj = None,
    mmproj_bytes: flags.MmprojBytes = None,
    no_mmproj_offload: flags.NoMmprojOffload = False,
    tool: flags.Tool = None,
    version: flags.Version = None,
    date: flags.Date = None,
    ram_bytes: flags.RamBytes = None,
    ram_bandwidth_bytes_per_s: flags.RamBandwidth = None,
    as_json: flags.AsJson = False,
    request: flags.Request = None,
    requests: flags.Requests = None,
    **machine: Any,
) -> None:
    """Plan a model on a rig: where every byte goes, whether it fits, how fast it will run."""
    _answer(model, {**locals(), **machine})


def _answer(model: str | None, given: dict[str, Any]) -> None:
    """Answer whichever way of asking was used."""
    if given["requests"] is not None:
        _answer_lines(given["requests"])
    elif given["request"] is not None:
        _answer_one(given["request"])
    elif model is not None:
        _answer_flags(model, flags.question_of(given), as_json=given["as_json"])
    else:
        sys.stderr.write("rigfit: name a model, or give --request or --requests; see rigfit plan --help\n")
        sys.exit(PROBLEM_EXIT_STATUS)


def _answer_flags(model: str, question: dict[str, Any], *, as_json: bool) -> None:
    from service.contract.validation import validate_request  # noqa: PLC0415
    from service.planning.local import local_planner  # noqa: PLC0415

    with exit_on_problem(as_json=as_json):
        answer = local_planner().plan(validate_request({"model": flags.model_reference(model), **question}))
    if as_json:
        sys.stdout.write(answer.model_dump_json() + "\n")
        return
    from service.shells.cli.table import print_plan  # noqa: PLC0415

    print_plan(answer)


def _answer_one(source: str) -> None:
    from service.contract.validation import parse_request  # noqa: PLC0415
    from service.planning.local import local_planner  # noqa: PLC0415

    with exit_on_problem(as_json=True):
        with opened(source) as stream:
            raw = stream.read()
        answer = local_planner().plan(parse_request(raw))
    sys.stdout.write(answer.model_dump_json() + "\n")


def _answer_lines(source: str) -> None:
    """Answer lines as soon as they are read: a few at a time here, many at a time on all processors."""
    from service.shells.cli.answers import answers  # noqa: PLC0415

    with exit_on_problem(as_json=False), opened(source) as stream, closing(answers(stream)) as answered:
        for line in answered:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()


def opened(source: str) -> BinaryIO:
    """Open a file or the standard input.

    Raises InvalidRequest where the file cannot be read.
    """
    if source == STDIN:
        return sys.stdin.buffer
    try:
        return Path(source).open("rb")
    except OSError as error:
        raise InvalidRequest(f"{source} cannot be read: {error.strerror}.") from None
