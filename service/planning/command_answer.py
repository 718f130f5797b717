"""Command of an answer: how to run the plan, how to measure it, and what each flag does."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from service.contract.plan import Command, CommandNote
from service.core.engines.llamacpp.command import command_of
from service.core.engines.llamacpp.flag import Flag, FlagRun
from service.planning.findings import Findings


def command_plan(findings: Findings) -> Command:
    """The command that runs a choice, and the one that measures it."""
    choice = findings.choice
    workload = choice.question.workload
    if workload.context_tokens != choice.context_tokens:
        workload = replace(workload, context_tokens=choice.context_tokens)
    stated = findings.request.rig
    # NVLink as well is used by copies from card to card only where these are switched on
    peer_access = stated.p2p is True or (stated.p2p is None and bool(stated.nvlink))
    command = command_of(
        findings.model, findings.rig, choice.settings, workload, findings.companions, peer_access=peer_access
    )
    return Command(
        argv=list(command.argv),
        env=dict(command.env),
        text=command.text,
        verify=command.verify,
        notes=[
            *[_note("=", variable) for variable in command.variables],
            *[note for run in command.runs for note in _notes(run)],
        ],
    )


@lru_cache(maxsize=512)
def _notes(run: FlagRun) -> Sequence[CommandNote]:
    """What each flag does; most plans share most runs."""
    return [_note(" ", flag) for flag in run.flags]


def _note(between: str, flag: Flag) -> CommandNote:
    return CommandNote(flag=between.join(flag.words), meaning=flag.meaning)
