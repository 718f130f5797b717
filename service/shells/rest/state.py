"""What endpoints are given: the planner, the database and the access to model hosts of this process."""

from typing import Annotated, cast

from fastapi import Depends, Request
from sqlalchemy import Engine

from service.planning.model_hosts import RemoteModels
from service.planning.planner import Planner
from service.shells.rest.plan_bytes import PlanBytes
from service.shells.serving.draining import Draining


# not `def`: the framework would hand each of them to a thread for every request, which takes longer than many an answer
async def _planner(request: Request) -> Planner:
    return cast("Planner", request.app.state.planner)


def plan_bytes_of(request: Request) -> PlanBytes:
    """The kept plans of the application that a request was sent to."""
    return cast("PlanBytes", request.app.state.plan_bytes)


async def _database(request: Request) -> Engine:
    return cast("Engine", request.app.state.database)


async def _remote(request: Request) -> RemoteModels:
    return cast("RemoteModels", request.app.state.remote)


async def _draining(request: Request) -> Draining:
    return cast("Draining", request.app.state.draining)


PlannerState = Annotated[Planner, Depends(_planner)]
DatabaseState = Annotated[Engine, Depends(_database)]
RemoteState = Annotated[RemoteModels, Depends(_remote)]
DrainingState = Annotated[Draining, Depends(_draining)]
