"""GET /gpus and GET /models."""

from starlette.testclient import TestClient

from tests.shells.rest.test_problems import expect_problem


def test_all_cards_are_listed(client: TestClient) -> None:
    """The list has every card of the catalogue, by slug."""
    slugs = [card["slug"] for card in client.get("/gpus").json()]
    assert len(slugs) == 237
    assert slugs == sorted(slugs)


def test_cards_are_searched_by_words(client: TestClient) -> None:
    """Every word has to occur, in any order."""
    assert [card["slug"] for card in client.get("/gpus?search=3090+rtx").json()] == ["rtx-3090", "rtx-3090-ti"]


def test_a_card_shows_what_was_not_verified(client: TestClient) -> None:
    """Each value of a card says where it comes from and whether it was re-read there."""
    card = client.get("/gpus/arc-a770-16gb").json()
    assert card["values"]["memory_bandwidth_bytes_per_s"]["verified"] is False
    assert card["values"]["vram_bytes"]["verified"] is True
    assert card["usable_memory"]["usable_bytes"] > 0


def test_a_card_is_found_by_any_of_its_names(client: TestClient) -> None:
    """A driver's name leads to the same page as the slug."""
    assert client.get("/gpus/NVIDIA GeForce RTX 3090").json() == client.get("/gpus/rtx-3090").json()


def test_a_card_that_is_not_there(client: TestClient) -> None:
    """An unknown or ambiguous name is a problem with suggestions."""
    assert expect_problem(client.get("/gpus/A100"), "unknown-gpu").suggestions


def test_all_models_are_listed(client: TestClient) -> None:
    """The list has every model of the catalogue, with its quantisations from small to large."""
    models = client.get("/models").json()
    assert len(models) == 127
    assert sum(len(model["quants"]) for model in models) == 902
    for model in models:
        sizes = [quant["tensor_data_bytes"] for quant in model["quants"]]
        assert sizes == sorted(sizes)


def test_models_are_searched_by_words(client: TestClient) -> None:
    """Every word has to occur in name or architecture."""
    assert [model["name"] for model in client.get("/models?search=oss+gpt").json()] == ["gpt-oss-120b", "gpt-oss-20b"]


def test_a_model_by_reference_bare_name_and_id(client: TestClient) -> None:
    """The three ways to name a model lead to the same one; a bare name says what was read into it."""
    named = client.get("/models/llama-3.3-70b:Q4_K_M").json()
    bare = client.get("/models/llama-3.3-70b").json()
    by_id = client.get(f"/models/{named['id']}").json()
    assert named == by_id
    assert bare.pop("notes")
    assert named.pop("notes") == []
    assert bare == named
    assert named["tensor_data_bytes"] == 42_512_531_712


def test_a_model_that_is_not_there(client: TestClient) -> None:
    """An unknown name is a problem with suggestions."""
    assert expect_problem(client.get("/models/llama-3.4-70b"), "unknown-model").suggestions


def test_a_search_has_a_longest_text(client: TestClient) -> None:
    """A search of thousands of letters is an invalid request."""
    expect_problem(client.get(f"/gpus?search={'x' * 201}"), "invalid-request")


def test_a_model_shows_what_it_is_made_of(client: TestClient) -> None:
    """Bytes by role and type sum up to its tensors; caches, context and rule are those it is planned by."""
    model = client.get("/models/llama-3.3-70b:Q4_K_M").json()
    assert (model["kind"], model["planned"], model["not_planned"]) == ("model", True, None)
    assert (model["parameters"], model["active_parameters"]) == (70_553_706_560, 70_553_706_560)
    assert model["trained_context_tokens"] == 131_072
    for sizes in (model["bytes_by_role"], model["bytes_by_type"]):
        assert sum(sizes.values()) == model["tensor_data_bytes"]
    assert model["kv_bytes_per_token"]["f16"] == 327_680
    assert model["kv_bytes_per_token"]["q8_0"] == 174_080
    rule = model["architecture_rule"]
    assert (rule["name"], rule["memory"], rule["layers"], rule["experts"]) == ("llama", "attention", 80, 0)


def test_a_mixture_shows_windows_experts_and_active_parameters(client: TestClient) -> None:
    """What one token passes is a small part of it."""
    model = client.get("/models/gpt-oss-120b").json()
    assert model["active_parameters"] < model["parameters"] / 10
    rule = model["architecture_rule"]
    assert (rule["windowed_layers"], rule["window_tokens"], rule["experts"]) == (18, 128, 128)
    assert model["kv_constant_bytes"]["f16"] > 0
