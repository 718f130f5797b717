"""POST /recommend: which rigs do what is asked."""

from fastapi import APIRouter, Depends, Request, Response

from service.contract.recommend import Recommendations, RecommendRequest
from service.planning.recommend import recommend
from service.shells.rest.media import require_json
from service.shells.rest.plan import BODY_PROBLEMS
from service.shells.rest.plan_threads import in_plan_thread
from service.shells.rest.problems import responses
from service.shells.rest.state import PlannerState

router = APIRouter(tags=["plans"])


@router.post(
    "/recommend",
    summary="Recommend rigs for a model",
    response_description="Rigs that do what was asked, best first, and what was not looked at.",
    response_model=Recommendations,
    responses=responses(*BODY_PROBLEMS),
    dependencies=[Depends(require_json)],
)
async def post_recommend(request: Request, asked: RecommendRequest, planner: PlannerState) -> Response:
    """Find rigs of up to eight catalogue cards, of one kind or two, that run the model as fast as asked, within limits.

    Prices are yours to give. That no rig does it is an answer, with what comes nearest.
    """
    found = await in_plan_thread(request, recommend, asked, planner)
    return Response(found.model_dump_json(), media_type="application/json")
