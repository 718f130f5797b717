"""`rigfit rigs` and `rigfit rigs parse`: rigs by name, and rigs from what tools print."""

import sys

from pydantic_core import to_json
from rich.console import Console
from rich.table import Table

from service.catalog.rig_presets import rig_presets
from service.contract.rigs import ParseRequest
from service.contract.validation import validate_as
from service.planning.local import catalogues
from service.planning.tool_output import parse_rig
from service.shells.cli.plan import opened


def print_rigs(search: str) -> None:
    """List the rigs that have every word of `search`."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("rig", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    words = search.casefold().split()
    for preset in rig_presets().values():
        text = f"{preset.name}. {preset.description}"
        if all(word in f"{preset.slug} {text}".casefold() for word in words):
            table.add_row(preset.slug, text)
    console = Console(highlight=False)
    console.print(table if table.row_count else "no rig has all of these words")


def parse(source: str, gpus: list[str]) -> None:
    """Print the rig that a file or standard input shows, as JSON for a request; raises PlanProblem."""
    with opened(source) as stream:
        text = stream.read().decode("utf-8", errors="replace")
    parsed = parse_rig(validate_as(ParseRequest, {"text": text, "gpus": gpus}), catalogues().gpus)
    for note in parsed.notes:
        sys.stderr.write(f"rigfit: {note}\n")
    sys.stdout.write(to_json(parsed.rig, indent=1).decode() + "\n")
