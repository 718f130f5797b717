"""The measurements of a database, and what is asked about them."""

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.contract.measurements import MeasurementList, MeasurementQuery
from service.planning.measurements.importing import measurement_document
from service.planning.measurements.learning import MOST_MEASUREMENTS, MeasuredSpeeds
from service.store.measurements import Filter, measurements, newest_used
from service.store.revisions import revisions


def measurements_revision(database: Engine) -> int:
    """Counter of the changes, from one small query."""
    with Session(database) as session:
        return revisions(session).get("measurements", 0)


def read_measured(database: Engine, revision: int) -> MeasuredSpeeds | None:
    """What predictions learn from, None where nothing was accepted.

    At revision 0 nothing was ever kept, in a database of an earlier release for want of a table.
    """
    if revision == 0:
        return None
    with Session(database) as session:
        rows = newest_used(session, MOST_MEASUREMENTS)
    return MeasuredSpeeds(tuple(rows)) if rows else None


def listed_measurements(database: Engine, query: MeasurementQuery) -> MeasurementList:
    """A page of what was kept, accepted and quarantined."""
    wanted = Filter(
        status=query.status,
        metric=query.metric,
        engine=query.engine,
        backend=query.backend,
        gpu=query.gpu,
        model=query.model,
    )
    with Session(database) as session:
        found, count = measurements(session, wanted, limit=query.limit, offset=query.offset)
    return MeasurementList(count=count, measurements=[measurement_document(one) for one in found])
