"""The OpenAPI document, and the service held against it."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from schemathesis.specs.openapi.schemas import OpenApiSchema
from starlette.testclient import TestClient

from service.app import create_app
from service.contract.problem import MEDIA_TYPE
from service.planning.access.keys import make_key
from service.planning.access.scopes import SCOPES
from service.settings import Settings
from tests.databases import Databases, migrate_and_seed, opened

OPERATIONS = [
    (method.upper(), path)
    for path, operations in create_app(Settings()).openapi()["paths"].items()
    for method in operations
]


@pytest.fixture(scope="module")
def described(sqlite: Databases) -> Iterator[OpenApiSchema]:
    """The schema of a running application on a seeded database."""
    settings = Settings(database_url=sqlite.copy_of("seeded", migrate_and_seed), model_hosts=())
    app = create_app(settings)
    with TestClient(app), opened(settings.database_url) as database:
        key = make_key(database, "tests", SCOPES)
        schema = schemathesis.openapi.from_asgi("/openapi.json", app)
        schema.config.update(headers={"X-API-Key": key.text})
        yield schema


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_conform_to_the_document(described: OpenApiSchema, method: str, path: str) -> None:
    """Whatever is sent, the status and the shape of the answer are those that the document names."""

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=described[path][method].as_strategy())
    def check_conformance(case: schemathesis.Case[Any]) -> None:
        # what a pattern, a build or a path means cannot be said in a schema: some of it is refused
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    check_conformance()


def test_every_operation_is_described(client: TestClient) -> None:
    """Each operation has a summary, a description, a tag and no error of the framework's own."""
    document = client.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            assert operation["description"].endswith("."), (method, path)
            assert operation["tags"], (method, path)
    assert not {"HTTPValidationError", "ValidationError"} & set(document["components"]["schemas"])


def test_every_refusal_is_a_problem(client: TestClient) -> None:
    """Each status of 400 and above is documented as application/problem+json with an example."""
    document = client.get("/openapi.json").json()
    refusals = [
        response
        for operations in document["paths"].values()
        for operation in operations.values()
        for status, response in operation["responses"].items()
        if int(status) >= 400
    ]
    assert refusals
    for response in refusals:
        content = response["content"][MEDIA_TYPE]
        assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
        assert content["examples"]


@pytest.mark.parametrize(
    "name", ["PlanRequest", "RigRequest", "GpuRequest", "InlineGpu", "LlamaCppEngine", "VllmEngine"]
)
def test_every_field_of_a_request_is_described(client: TestClient, name: str) -> None:
    """Each field says what it means, with its unit, except those that are described as objects."""
    schema_of = client.get("/openapi.json").json()["components"]["schemas"][name]
    undescribed = {
        field
        for field, shape in schema_of["properties"].items()
        if "description" not in shape and "$ref" not in shape and "oneOf" not in shape and "anyOf" not in shape
    }
    assert undescribed == set()
