"""Numbers of request bodies are numbers: what is true or a text is none, though Python would take it for one."""

import json
from collections.abc import Iterator

import pytest
from pydantic import BaseModel, ValidationError

from service.contract.cards import CardFacts
from service.contract.measurements import MeasurementHints, MeasurementQuery
from service.contract.request_models import REQUEST_MODELS

# all text of an address is text, its numbers too
OF_ADDRESSES = (MeasurementHints, MeasurementQuery)
REQUESTS: tuple[type[BaseModel], ...] = (*REQUEST_MODELS, CardFacts)
BODIES = [model for model in REQUESTS if model not in OF_ADDRESSES]


def numbers() -> Iterator[tuple[type[BaseModel], str]]:
    """Fields that may be a number and neither true nor a text."""
    for model in BODIES:
        for name, shape in model.model_json_schema()["properties"].items():
            kinds = {each.get("type") for each in (shape, *shape.get("anyOf", ()))}
            if kinds & {"number", "integer"} and not kinds & {"boolean", "string"}:
                yield model, name


@pytest.mark.parametrize(("model", "name"), list(numbers()), ids=lambda each: getattr(each, "__name__", each))
@pytest.mark.parametrize("value", [True, "1"], ids=repr)
def test_a_number_is_a_number(model: type[BaseModel], name: str, value: object) -> None:
    """Such a field is refused, by its name."""
    with pytest.raises(ValidationError) as refused:
        model.model_validate_json(json.dumps({name: value}))
    assert name in {error["loc"][0] for error in refused.value.errors() if error["loc"]}
