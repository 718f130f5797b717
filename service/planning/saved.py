"""Plans that are kept: question, answer and the versions they came from, under the digest of all three."""

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.contract.request import PlanRequest
from service.planning.planner import Planner
from service.store.database import transaction
from service.store.plans import PlanEntry, SavedPlan, save_plan, saved_plan


def keep_plan(database: Engine, planner: Planner, request: PlanRequest) -> SavedPlan:
    """Answer and keep; the same question is kept once."""
    answer = planner.answer(request)
    plan = answer.plan
    entry = PlanEntry(
        id=plan.id,
        request=request.model_dump(mode="json"),
        plan=plan.model_dump(mode="json"),
        rules_version=plan.engine.rules_version,
        data_version=answer.data_version,
    )
    with transaction(database) as session:
        return save_plan(session, entry)


def find_plan(database: Engine, plan_id: str) -> SavedPlan | None:
    """Read a kept plan, None where there is none of that id."""
    with Session(database) as session:
        return saved_plan(session, plan_id)
