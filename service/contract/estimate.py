"""A quantity that is not known exactly."""

from pydantic import BaseModel

from service.contract.quantities import ANSWER


class Estimate(BaseModel):
    """A quantity with its range."""

    model_config = ANSWER

    low: float
    mid: float
    high: float
