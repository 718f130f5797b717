"""What endpoints are given: the planner, the database and the access to model hosts of this process."""

from typing import Annotated, cast

from fastapi import Depends, Request
from sqlalchemy import Engine

from service.planning.model_hosts import RemoteModels
from service.planning.planner import Planner


def _planner(request: Request) -> Planner:
    return cast("Planner", request.app.state.planner)


def _database(request: Request) -> Engine:
    return cast("Engine", request.app.state.database)


def _remote(request: Request) -> RemoteModels:
    return cast("RemoteModels", request.app.state.remote)


PlannerState = Annotated[Planner, Depends(_planner)]
DatabaseState = Annotated[Engine, Depends(_database)]
RemoteState = Annotated[RemoteModels, Depends(_remote)]
