"""`rigfit measurements`: what benchmarks printed, into the database, and what became of it."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine

from service.contract.measurements import (
    ImportedMeasurements,
    MeasurementDocument,
    MeasurementHints,
    MeasurementQuery,
    Withdrawal,
)
from service.contract.validation import validate_as
from service.core.problems import InvalidRequest
from service.measurements.text import decoded
from service.planning.catalogues import StoredCatalogues
from service.planning.measurements.importing import import_measurements
from service.planning.measurements.stored import listed_measurements
from service.planning.measurements.withdrawing import withdraw_measurement
from service.planning.planner import Planner
from service.settings import settings
from service.shells.cli.migrate import prepared_database

_STANDARD_INPUT = "-"


def import_files(files: Sequence[str], hints: MeasurementHints) -> None:
    """Read every file and keep its figures, telling of each; "-" is standard input. Raises PlanProblem."""
    contents = [(name, _content(name)) for name in files]
    chosen = settings()
    database = prepared_database(chosen)
    try:
        planner = Planner(StoredCatalogues(database, chosen.catalogue_refresh_s))
        for name, content in contents:
            _tell(name, import_measurements(planner, database, content, hints))
    finally:
        database.dispose()


def list_measurements(query: MeasurementQuery, *, with_ids: bool) -> None:
    """Print a page of what was kept; with_ids: ids beside it, in the place of what one of them is of in detail."""
    database: Engine = prepared_database(settings())
    try:
        found = listed_measurements(database, query)
    finally:
        database.dispose()
    if not found.measurements:
        Console(highlight=False).print("there are no such measurements")
        return
    _print(found.measurements, with_ids=with_ids)


def withdraw(measurement_id: str, reason: str) -> None:
    """Learn nothing from a measurement any more; raises PlanProblem."""
    withdrawal = validate_as(Withdrawal, {"reason": reason})
    chosen = settings()
    database = prepared_database(chosen)
    try:
        catalogues = StoredCatalogues(database, chosen.catalogue_refresh_s)
        _print([withdraw_measurement(catalogues, database, measurement_id, withdrawal.reason)], with_ids=True)
    finally:
        database.dispose()


def _content(name: str) -> str:
    if name == _STANDARD_INPUT:
        return decoded(sys.stdin.buffer.read())
    try:
        return decoded(Path(name).read_bytes())
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}.") from None


def _tell(name: str, found: ImportedMeasurements) -> None:
    known = f", {found.known} of them known before" if found.known else ""
    sys.stdout.write(
        f"{name}: {found.accepted} accepted, {found.quarantined} quarantined{known} ({', '.join(found.formats)})\n"
    )
    sys.stdout.flush()
    _print(found.measurements)
    for line in found.unread:
        sys.stdout.write(f"line {line.line} {line.reason}: {line.text[:80]}\n")
    if found.unread_count > len(found.unread):
        sys.stdout.write(f"and {found.unread_count - len(found.unread)} more lines\n")


def _print(documents: Sequence[MeasurementDocument], *, with_ids: bool = False) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    if with_ids:
        table.add_column("id", no_wrap=True)
    for title in ("model", "tokens/s", "status") if with_ids else ("model", "cards", "figure", "tokens/s", "status"):
        table.add_column(title, overflow="fold")
    for one in documents:
        value = "" if one.value is None else f"{one.value:.2f}"
        status = one.status if not one.code else f"{one.status}: {one.code}. {one.reason}"
        if with_ids:
            table.add_row(one.id, one.model or "", value, one.code or one.status)
        else:
            table.add_row(one.model or "", one.rig, _figure(one), value, status)
    Console(highlight=False).print(table)


def _figure(one: MeasurementDocument) -> str:
    """The test in few words: "decode at 0"."""
    what = one.metric.removesuffix("_tokens_per_s").removesuffix("_s").replace("_", " ")
    work = (one.request or {}).get("workload")
    if work is None:
        return what
    if one.metric == "prefill_tokens_per_s":
        return f"{what} of {work['prompt_tokens']} behind {work['cached_tokens']}"
    return f"{what} of {work['output_tokens']} behind {work['cached_tokens'] + work['prompt_tokens']}"
