"""Every model that something is read into, for the names of all fields."""

from typing import Final

from pydantic import BaseModel

from service.contract.cards import CardFacts
from service.contract.companions import DraftRequest, MmprojRequest
from service.contract.compare import CompareBase, CompareRequest
from service.contract.engine import LlamaCppEngine, VllmEngine
from service.contract.imports import ImportRequest, ModelEdit
from service.contract.measurements import MeasurementHints, MeasurementQuery
from service.contract.model_reference import ModelPath, ModelUrl
from service.contract.recommend import RecommendRequest
from service.contract.request import AssumptionsRequest, PlanRequest, WorkloadRequest
from service.contract.rig import CircuitRequest, GpuRequest, HostRequest, InlineGpu, PsuLeads, PsuRequest, RigRequest
from service.contract.rigs import ParseRequest

REQUEST_MODELS: Final[tuple[type[BaseModel], ...]] = (
    PlanRequest, ModelUrl, ModelPath, RigRequest, GpuRequest, InlineGpu, HostRequest, PsuRequest, PsuLeads,
    CircuitRequest, WorkloadRequest, LlamaCppEngine, DraftRequest, MmprojRequest, VllmEngine, AssumptionsRequest,
    ImportRequest, CompareRequest, CompareBase, MeasurementHints, MeasurementQuery, RecommendRequest, ParseRequest,
    CardFacts, ModelEdit,
)  # fmt: skip
