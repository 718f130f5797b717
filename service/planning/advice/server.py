"""What llama-server takes by itself where a command does not say it."""

from collections.abc import Iterator
from typing import Final

from service.contract.plan import Advice
from service.core.engines.llamacpp.versions import version_rules
from service.planning.findings import Findings

DEFAULT_SLOTS: Final = 4
"""Streams of a server that is not told how many (-np auto, tools/server, pull request 16736)."""


def server_defaults(findings: Findings) -> Iterator[Advice]:
    """Context and slots that the server's defaults take silently, where they take more than there is."""
    settings, trained = findings.choice.settings, findings.facts.trained_context_tokens
    rules = version_rules(settings.version, settings.date)
    most = findings.max_context_tokens
    if settings.tool != "llama-server" or not rules.has("server_default_slots") or not 0 < most < trained:
        return
    yield Advice(
        code="server-defaults",
        message=f"Keep -c and -np in the command: left out, llama-server takes the trained {trained:,} tokens and "
        f"{DEFAULT_SLOTS} slots that share one cache. Here {most:,} tokens fit, so that "
        + ("--fit would shorten the context without a word." if rules.has("fit_by_default") else "it would not load."),
        numbers={"trained_context_tokens": trained, "slots": DEFAULT_SLOTS, "max_context_tokens": most},
    )
