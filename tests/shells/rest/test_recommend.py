"""POST /recommend."""

from starlette.testclient import TestClient

from service.contract.recommend import EXAMPLE_RECOMMENDATION, Recommendations


def test_rigs_are_recommended(client: TestClient) -> None:
    """The example of the document names rigs, cheapest first."""
    answer = client.post("/recommend", json=EXAMPLE_RECOMMENDATION)
    assert answer.status_code == 200
    rigs = Recommendations.model_validate(answer.json()).recommendations
    prices = [rig.price for rig in rigs]
    assert len(rigs) > 3
    assert prices == sorted(price for price in prices if price is not None)


def test_a_recommended_rig_can_be_planned(client: TestClient) -> None:
    """The question of a recommended model is one that POST /plan takes."""
    model = client.post("/recommend", json=EXAMPLE_RECOMMENDATION).json()["recommendations"][0]["models"][0]
    assert client.post("/plan", json=model["request"]).json()["id"] == model["plan_id"]


def test_a_price_that_nobody_gave_is_a_problem(client: TestClient) -> None:
    """Sorting by price without prices says what to give."""
    answer = client.post("/recommend", json={"model": "qwen3-32b", "sort_by": "price"})
    assert (answer.status_code, answer.headers["content-type"]) == (409, "application/problem+json")
    assert "give prices" in answer.json()["detail"]


def test_an_unknown_model_is_a_problem(client: TestClient) -> None:
    """Whatever the rig, the model's name has to be known."""
    answer = client.post("/recommend", json={"model": "qwen9-32b"})
    assert (answer.status_code, answer.json()["type"]) == (404, "/problems/unknown-model")
