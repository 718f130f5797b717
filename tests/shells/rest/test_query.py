"""Query parameters that an endpoint does not have."""

import pytest
from starlette.testclient import TestClient

from tests.shells.rest.test_plan import QUESTION
from tests.shells.rest.test_problems import expect_problem


@pytest.mark.parametrize(
    ("method", "address", "parameter", "near"),
    [
        ("GET", "/gpus?searh=rtx", "searh", "search"),
        ("GET", "/models?serch=qwen", "serch", "search"),
        ("GET", "/healthz?verbose=1", "verbose", None),
        ("GET", "/gpus/rtx-3090?format=csv", "format", None),
        ("POST", "/plan?context_tokens=4096", "context_tokens", None),
        ("POST", "/plan/batch?form=xlsx", "form", "format"),
        ("GET", "/plan?model=llama-3.1-8b&gpus=rtx-3090&contxt_tokens=8192", "contxt_tokens", "context_tokens"),
    ],
)
def test_a_parameter_that_an_address_does_not_have_is_refused(
    client: TestClient, method: str, address: str, parameter: str, near: str | None
) -> None:
    """It is named, with what may have been meant; nothing that was asked for is passed over."""
    problem = expect_problem(
        client.request(method, address, json=QUESTION if method == "POST" else None), "invalid-request"
    )
    assert [error.pointer for error in problem.errors] == [f"/{parameter}"]
    assert near is None or near in problem.suggestions


@pytest.mark.parametrize("address", ["/healthz", "/healthz?", "/gpus?search=rtx&search=rx", "/models?search=qwen"])
def test_parameters_that_it_has_are_taken(client: TestClient, address: str) -> None:
    """Also none, and one several times."""
    assert client.get(address).status_code == 200
