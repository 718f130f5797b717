"""Command lines that run a plan with llama.cpp, and that measure it."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from service.core.engines.llamacpp.bench_flags import bench_flags
from service.core.engines.llamacpp.companion_flags import companion_flags
from service.core.engines.llamacpp.companions import ALONE, Companions
from service.core.engines.llamacpp.environment import environment
from service.core.engines.llamacpp.flag import Flag, words_of
from service.core.engines.llamacpp.flag_history import knows
from service.core.engines.llamacpp.server_flags import server_flags
from service.core.engines.llamacpp.settings import LlamaCppSettings, Tool
from service.core.engines.llamacpp.versions import version_rules
from service.core.types import Model, Rig, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """How to run a plan: arguments, environment, both as one line for a shell, and a line that measures it.

    variables, flags: the environment and the arguments, each with what it does.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    text: str
    verify: str
    variables: tuple[Flag, ...]
    flags: tuple[Flag, ...]


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
    bench = tuple(bench_flags(model, rig, settings, workload))
    flags = bench
    if tool == "llama-server":
        flags = (*server_flags(model, rig, settings, workload), *companion_flags(companions, rig))
    variables = environment(rig, settings, tool, peer_access=peer_access)
    argv = (_program(settings), *words_of(flags))
    measured = (*words_of(bench), "-o", "json")
    others = environment(rig, settings, "llama-bench", peer_access=peer_access)
    return CommandLine(
        argv=argv,
        env=_env(variables),
        text=_shell_line(_env(variables), argv),
        verify=_shell_line(_env(others), ("llama-bench", *measured)),
        variables=variables,
        flags=flags,
    )


def _program(settings: LlamaCppSettings) -> str:
    """The program as it was called then."""
    tool: Tool = settings.tool
    if tool == "llama-server" and not knows(version_rules(settings.version, settings.date), "llama_server"):
        return "server"
    return tool


def _env(variables: Iterable[Flag]) -> dict[str, str]:
    return {variable.words[0]: variable.words[1] for variable in variables}


_quoted = lru_cache(maxsize=4096)(shlex.quote)
"""Most words of command lines are the same few flags."""


def _shell_line(env: Mapping[str, str], argv: tuple[str, ...]) -> str:
    return " ".join([*(f"{name}={_quoted(value)}" for name, value in env.items()), *map(_quoted, argv)])
