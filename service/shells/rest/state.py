"""What endpoints are given: the planner and the database of this process."""

from typing import Annotated, cast

from fastapi import Depends, Request
from sqlalchemy import Engine

from service.planning.planner import Planner


def _planner(request: Request) -> Planner:
    return cast("Planner", request.app.state.planner)


def _database(request: Request) -> Engine:
    return cast("Engine", request.app.state.database)


PlannerState = Annotated[Planner, Depends(_planner)]
DatabaseState = Annotated[Engine, Depends(_database)]
