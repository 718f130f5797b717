"""Saved plans: addressable and immutable."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from service.store.database import insert_where_absent
from service.store.tables import JsonObject, SavedPlanTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntry:
    """A plan to keep: the question, the answer, and the versions of rules and data that gave it.

    `id` is the digest of all of them but the answer, so the same id always means the same content.
    """

    id: str
    request: JsonObject
    plan: JsonObject
    rules_version: str
    data_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    """A plan as it was answered at `created_at`."""

    id: str
    request: JsonObject
    plan: JsonObject
    rules_version: str
    data_version: str
    created_at: datetime


def save_plan(session: Session, entry: PlanEntry) -> SavedPlan:
    """Keep a plan; one that is kept already stays as it was first answered."""
    values: dict[str, object] = {
        "id": entry.id,
        "request": entry.request,
        "plan": entry.plan,
        "rules_version": entry.rules_version,
        "data_version": entry.data_version,
    }
    insert_where_absent(session, SavedPlanTable, values)
    return _saved(session.get_one(SavedPlanTable, entry.id))


def saved_plan(session: Session, plan_id: str) -> SavedPlan | None:
    """Read a plan, None where no such plan was saved."""
    row = session.get(SavedPlanTable, plan_id)
    return None if row is None else _saved(row)


def _saved(row: SavedPlanTable) -> SavedPlan:
    return SavedPlan(
        id=row.id,
        request=row.request,
        plan=row.plan,
        rules_version=row.rules_version,
        data_version=row.data_version,
        created_at=row.created_at,
    )
