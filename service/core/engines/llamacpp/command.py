"""Command lines that run a plan with llama.cpp, and that measure it."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.core.engines.llamacpp.bench_flags import bench_flags
from service.core.engines.llamacpp.companion_flags import companion_flags
from service.core.engines.llamacpp.companions import ALONE, Companions
from service.core.engines.llamacpp.environment import environment
from service.core.engines.llamacpp.flag import Flag, FlagRun, run_of
from service.core.engines.llamacpp.flag_history import knows
from service.core.engines.llamacpp.server_flags import server_flags
from service.core.engines.llamacpp.settings import LlamaCppSettings, Tool
from service.core.engines.llamacpp.versions import version_rules
from service.core.types import Model, Rig, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """How to run a plan: arguments, environment, both as one line for a shell, and a line that measures it.

    variables, runs: the environment and the arguments, each with what it does.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    text: str
    verify: str
    variables: tuple[Flag, ...]
    runs: tuple[FlagRun, ...]


def command_of(
    model: Model,
    rig: Rig,
    settings: LlamaCppSettings,
    workload: Workload,
    companions: Companions = ALONE,
    *,
    peer_access: bool = False,
) -> CommandLine:
    """Command for `settings` with no gap left; a context of None is the trained one.

    Flags are given where they differ from the default, and where the default would let llama.cpp decide otherwise: the
    context, the number of streams, the layers, and --fit. File names and addresses of RPC servers are placeholders.
    What measures the plan measures the model without what runs beside it, which llama-bench does not know.
    peer_access: whether the cards are said to copy to each other directly.
    Source: common/arg.cpp, tools/llama-bench/llama-bench.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    tool = settings.tool
    bench = bench_flags(model, rig, settings, workload)
    runs = bench
    if tool == "llama-server":
        runs = server_flags(model, rig, settings, workload)
        if companions is not ALONE:
            runs = (*runs, run_of(companion_flags(companions, rig)))
    program = _program(settings)
    variables = environment(rig, settings, tool, peer_access=peer_access)
    others = environment(rig, settings, "llama-bench", peer_access=peer_access)
    return CommandLine(
        argv=(program, *[word for run in runs for word in run.words]),
        env=_env(variables),
        text=_shell_line(variables, program, runs),
        verify=f"{_shell_line(others, 'llama-bench', bench)} -o json",
        variables=variables,
        runs=runs,
    )


def _program(settings: LlamaCppSettings) -> str:
    """The program as it was called then."""
    tool: Tool = settings.tool
    if tool == "llama-server" and not knows(version_rules(settings.version, settings.date), "llama_server"):
        return "server"
    return tool


def _env(variables: Iterable[Flag]) -> dict[str, str]:
    return {variable.words[0]: variable.words[1] for variable in variables}


def _shell_line(variables: Iterable[Flag], program: str, runs: Sequence[FlagRun]) -> str:
    stated = [f"{name}={shlex.quote(value)}" for name, value in _env(variables).items()]
    return " ".join([*stated, program, *[run.text for run in runs if run.words]])
