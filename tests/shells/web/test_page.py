"""The page as it is served: what it shows for a question, and what it never lets through."""

from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from tests.shells.web.markup import document

HOSTILE = "<img src=x onerror=alert(1)>\"'&</script>"
OWN_CARD = '{"gpu":{"name":"NAME","vram_bytes":25769803776,"bandwidth_bytes_per_s":9e11},"count":1}'


def address(path: str = "/", /, **parameters: object) -> str:
    return f"{path}?{urlencode(parameters, doseq=True)}"


def test_an_empty_address_shows_an_example(client: TestClient) -> None:
    """Without a question there is one to start from, with its answer."""
    page = document(client.get("/").text)
    assert page.one("input", name="model").attributes["value"] == "llama-3.3-70b:Q4_K_M"
    assert page.one("span", data_value="verdict").text == "Fits"
    assert "An example" in page.one("p", class_="headline").text


def test_the_form_holds_the_question_of_the_address(client: TestClient) -> None:
    """Whatever an address states stands in the form, in the units of the form."""
    question = {
        "model": "qwen3-32b:Q4_K_M",
        "gpus": ["2x rtx-3090", '{"gpu":"rtx-5090","count":1,"free_bytes":21474836480}'],
        "context_tokens": "8192",
        "psu_rated_w": "1200",
        "ram_bytes": "68719476736",
        "cache_type_k": "q8_0",
        "override_tensor": ["a=CPU", "b=CPU"],
    }
    form = document(client.get(address(**question)).text).one("form", id="question")
    assert [card.attributes["value"] for card in form.all("input", name="gpus")] == question["gpus"]
    rows = form.one("ul", id="cards").all("li", class_="card")
    assert [row.one("input", data_part="count").attributes["value"] for row in rows] == ["2", "1"]
    assert [row.one("input", data_part="name").attributes["value"] for row in rows] == ["rtx-3090", "rtx-5090"]
    assert [row.one("input", data_part="free_bytes").attributes["value"] for row in rows] == ["", "20"]
    assert form.one("input", id="context_tokens").attributes["value"] == "8192"
    assert form.one("input", id="psu_rated_w").attributes["value"] == "1200"
    assert form.one("input", id="ram_bytes").attributes["value"] == "64"
    assert form.one("input", name="ram_bytes").attributes["value"] == "68719476736"
    chosen = [
        option for option in form.one("select", name="cache_type_k").all("option") if "selected" in option.attributes
    ]
    assert [option.text for option in chosen] == ["q8_0"]
    assert form.one("textarea", name="override_tensor").words == ["a=CPU\nb=CPU"]


def test_the_engine_that_is_asked_for_is_the_one_whose_settings_are_open(client: TestClient) -> None:
    """Settings of the other engine are neither shown nor sent."""
    form = document(client.get(address(model="qwen3-32b", gpus="rtx-5090", engine="vllm", enforce_eager="true")).text)
    states = {
        part.attributes["data-engine"]: "disabled" in part.attributes for part in form.all("fieldset", class_="plain")
    }
    assert states == {"llama.cpp": True, "vllm": False}


@pytest.mark.parametrize(
    ("parameters", "title", "suggested"),
    [
        ({"model": "llama-3.3-70", "gpus": "rtx-3090"}, "Unknown model", ("model=", "gpus=rtx-3090")),
        ({"model": "qwen3-32b", "gpus": ["rtx-3090", "2x A100"]}, "Unknown GPU", ("gpus=rtx-3090&", "gpus=2x+a100-")),
        ({"model": "qwen3-32b", "gpus": '{"gpu":"A100","count":2}'}, "Unknown GPU", ("a100-", "%22count%22%3A2")),
        ({"model": "qwen3-32b", "engine": "lamma.cpp"}, "Unknown engine", ("engine=llama.cpp", "model=qwen3-32b")),
    ],
)
def test_suggestions_of_a_problem_ask_again(
    client: TestClient, parameters: dict[str, object], title: str, suggested: tuple[str, ...]
) -> None:
    """Each suggestion is a link to the same question with that name in place of the refused one."""
    page = document(client.get(address(**parameters)).text)
    assert page.one("header", class_="verdict refused").one("h1").text == title
    links = [link.attributes["href"] for link in page.all("a") if "data-question" in link.attributes]
    assert links
    assert all(part in link for link in links for part in suggested)


@pytest.mark.parametrize(
    "parameters",
    [
        {"model": ""},
        {"model": "qwen3-32b", "context_tokens": "0"},
        {"model": "qwen3-32b", "context_tokens": "many"},
        {"model": "qwen3-32b", "nonsense": "1"},
        {"model": "qwen3-32b", "gpus": "{"},
        {"model": "qwen3-32b", "gpus": ["rtx-3090"], "psu_rated_w": "-1"},
    ],
)
def test_a_question_that_cannot_be_answered_is_shown_with_its_problem(
    client: TestClient, parameters: dict[str, object]
) -> None:
    """The form stays usable, and what is wrong stands where the answer would."""
    answer = client.get(address(**parameters))
    assert answer.status_code == 200
    page = document(answer.text)
    assert len(page.one("form", id="question").all("input", name="model")) == 1
    assert page.one("article", class_="problem").attributes["data-summary"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"model": HOSTILE},
        {"model": "qwen3-32b", "gpus": HOSTILE},
        {"model": "qwen3-32b", "gpus": OWN_CARD.replace("NAME", HOSTILE.replace('"', '\\"'))},
        {"model": "qwen3-32b", "gpus": "rtx-5090", "override_tensor": HOSTILE},
        {HOSTILE: HOSTILE, "model": "qwen3-32b"},
    ],
)
def test_what_is_asked_is_text_and_never_markup(client: TestClient, parameters: dict[str, object]) -> None:
    """Names that look like markup are shown as they are."""
    for path in ("/", "/answer"):
        text = client.get(address(path, **parameters)).text
        assert "<img" not in text
        assert document(text).all("img") == []


def test_nothing_inline_runs_or_is_styled(client: TestClient) -> None:
    """The policy allows what this service serves and nothing else, and the pages need nothing else."""
    for path in ("/", address("/answer", model="qwen3-32b", gpus="rtx-5090"), "/static/page.js"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    page = document(client.get("/").text)
    assert page.all("style") == []
    assert all("src" in script.attributes for script in page.all("script"))
    assert "style=" not in client.get("/").text
    assert " on" not in " ".join(name for each in page.all("button") for name in each.attributes)


def test_the_page_loads_nothing_from_elsewhere(client: TestClient) -> None:
    """Every script, style sheet and image is served here."""
    page = document(client.get("/").text)
    loaded = [element.attributes["href"] for element in page.all("link")]
    loaded += [element.attributes["src"] for element in page.all("script")]
    assert len(loaded) >= 3
    for path in loaded:
        assert path.startswith("/static/")
        assert client.get(path).status_code == 200


def test_a_file_that_was_loaded_before_is_not_sent_again(client: TestClient) -> None:
    """Scripts are asked about each time and sent when they changed."""
    first = client.get("/static/page.js")
    again = client.get("/static/page.js", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""


def test_files_outside_the_folder_are_not_served(client: TestClient) -> None:
    """No path leads out of the folder of scripts."""
    for path in ("/static/../page.py", "/static/%2e%2e/page.py", "/static/none.js", "/static/"):
        assert client.get(path).status_code in {404, 405}


def test_the_pages_are_no_part_of_the_documented_interface(client: TestClient) -> None:
    """Programs use the JSON endpoints; what is made for people may change."""
    assert not {"/", "/answer", "/static/{path}"} & set(client.get("/openapi.json").json()["paths"])
