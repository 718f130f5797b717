"""POST /models: uploads, whole or only their first megabytes."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from service.core.units import MIB
from service.gguf.reader import read_header
from tests.databases import Databases, migrate_and_seed
from tests.gguf.gguf_bytes import ARRAY, F32, LITTLE, TEXT, U32, header
from tests.remote.files import VOCABULARY, whole
from tests.remote.llama import HEADER, named_header, split_headers
from tests.remote.model_host import ModelHost
from tests.servers import served
from tests.shells.rest.model_importing import importing_client
from tests.shells.rest.test_problems import expect_problem

BOUNDARY = "----boundary"
FORM = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}


@pytest.fixture
def client(sqlite: Databases) -> Iterator[TestClient]:
    """The application on a database of its own, without any model host."""
    nowhere = ModelHost(url="http://127.0.0.1:9")
    url = sqlite.copy_of("seeded", migrate_and_seed)
    with importing_client(url, nowhere, max_upload_bytes=16 * MIB) as client:
        yield client


def upload(client: TestClient, content: bytes, name: str = "house.gguf", **fields: str) -> Any:
    return client.post("/models", files={"file": (name, content)}, data=fields)


def test_the_first_megabytes_are_enough(client: TestClient) -> None:
    """A header and whatever follows it, cut anywhere, is the model; it can be planned at once."""
    answer = upload(client, HEADER + bytes(100_000))
    assert answer.status_code == 201, answer.text
    model = answer.json()
    assert model["id"] == read_header(HEADER).id
    assert model["source"] == "upload of house.gguf"
    assert client.get(f"/models/{model['id']}").json() == model
    plan = client.post("/plan", json={"model": model["reference"], "rig": {"gpus": ["rtx-3090"]}}).json()
    assert plan["model"]["id"] == model["id"]


def test_the_same_content_is_kept_once(client: TestClient) -> None:
    """Whatever the file is called, and however much of it is sent."""
    first = upload(client, HEADER, alias="House/1B")
    again = upload(client, HEADER + bytes(5000), name="other.gguf", alias="house/1b")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert first.json()["aliases"] == ["house/1b"]


def test_a_model_without_a_name_is_called_as_its_file(client: TestClient) -> None:
    """Folders that a browser may send are no part of it."""
    pairs = [LITTLE.pair("general.architecture", TEXT, "clip")]
    content = whole(LITTLE.preamble(1, 1) + b"".join(pairs) + LITTLE.tensor("v.a", [8]))
    model = upload(client, content, name="C:\\models\\sub/My Projector.gguf").json()
    assert model["name"] == "my-projector-mmproj"
    assert model["source"] == "upload of My Projector.gguf"


def test_all_parts_of_a_split_model_at_once(client: TestClient) -> None:
    """Several files are the parts of one model, in any order; one alone names those that are missing."""
    parts = [("file", named) for named in reversed(list(split_headers("House 3.2 1B Instruct", 3).items()))]
    alone = expect_problem(client.post("/models", files=parts[:1]), "unreadable-model")
    assert "missing: 00001-of-00003, 00002-of-00003" in alone.detail
    answer = client.post("/models", files=parts)
    assert answer.status_code == 201, answer.text
    whole_model = read_header(HEADER)
    assert answer.json()["tensor_count"] == len(whole_model.tensors)
    assert answer.json()["id"] == whole_model.id
    assert upload(client, HEADER).status_code == 200


def kind_header(*pairs: bytes, tensor: str = "x.weight") -> bytes:
    return whole(LITTLE.preamble(1, len(pairs)) + b"".join(pairs) + LITTLE.tensor(tensor, [8, 4]))


def pair(key: str, value: str) -> bytes:
    return LITTLE.pair(key, TEXT, value)


ARCHITECTURE = pair("general.architecture", "llama")
KINDS = {
    "mmproj": kind_header(pair("general.architecture", "clip"), tensor="v.blk.0.attn_q.weight"),
    "lora": kind_header(ARCHITECTURE, pair("general.type", "adapter"), tensor="blk.0.attn_q.weight.lora_a"),
    "control-vector": kind_header(pair("general.architecture", "controlvector"), tensor="direction.1"),
    "imatrix": kind_header(pair("general.type", "imatrix"), tensor="blk.0.attn_q.weight.in_sum2"),
    "vocabulary": LITTLE.preamble(0, 2) + ARCHITECTURE + pair("tokenizer.ggml.model", "gpt2"),
    "diffusion": kind_header(pair("general.architecture", "flux"), tensor="double_blocks.0.img_attn.proj.weight"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_say_what_they_are(client: TestClient, kind: str) -> None:
    """They are kept, listed and shown, and a plan of one is refused with what to plan instead."""
    answer = upload(client, KINDS[kind])
    assert answer.status_code == 201, answer.text
    model = answer.json()
    assert (model["kind"], model["planned"]) == (kind, False)
    assert model["not_planned"]
    assert model["architecture_rule"] is None
    assert sum(model["bytes_by_role"].values()) == model["tensor_data_bytes"]
    assert [listed["kind"] for listed in client.get("/models?search=house").json()] == [kind]
    problem = expect_problem(client.post("/plan", json={"model": model["id"]}), "unsupported")
    assert model["what"] in problem.detail
    assert model["not_planned"] in problem.detail


def test_a_diffusion_file_without_architecture(client: TestClient) -> None:
    """stable-diffusion.cpp names tensors and nothing else."""
    content = kind_header(tensor="model.diffusion_model.input_blocks.0.0.weight")
    assert upload(client, content).json()["kind"] == "diffusion"


UNREADABLE = {
    "nothing": (b"", "at least 4 more bytes"),
    "another format": (b"PK\x03\x04" + bytes(1000), "begins with"),
    "too little of it": (HEADER[:500], "more bytes are needed"),
    "2^63 tensors": (LITTLE.preamble(2**63, 1), "tensors"),
    "nothing to run": (header(LITTLE.pair("x", U32, 1)), ""),
}


@pytest.mark.parametrize(("content", "said"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_is_no_model_is_refused(client: TestClient, content: bytes, said: str) -> None:
    """With 422, as the caller sent it; nothing is kept."""
    before = client.get("/models").json()
    assert said in expect_problem(upload(client, content), "unreadable-model").detail
    assert client.get("/models").json() == before


def form(*parts: bytes, end: bytes = f"--{BOUNDARY}--\r\n".encode()) -> bytes:
    """A body of these parts."""
    return b"".join(f"--{BOUNDARY}\r\n".encode() + part + b"\r\n" for part in parts) + end


def part_of(name: str, content: bytes, file_name: str | None = None) -> bytes:
    suffix = "" if file_name is None else f'; filename="{file_name}"'
    return f'content-disposition: form-data; name="{name}"{suffix}\r\n\r\n'.encode() + content


FILE = part_of("file", HEADER, "house.gguf")
FORMS = {
    "no parts": form(),
    "no file": form(part_of("alias", b"x")),
    "a field nobody knows": form(FILE, part_of("name", b"x")),
    "two aliases": form(FILE, part_of("alias", b"x"), part_of("alias", b"y")),
    "a long alias": form(FILE, part_of("alias", b"x" * 1000)),
    "an alias that is no text": form(FILE, part_of("alias", b"\xff\xfe")),
    "an alias that is no name": form(FILE, part_of("alias", b"a b")),
    "no name": form(b"content-disposition: form-data\r\n\r\nx"),
    "no end": form(FILE, end=b""),
    "an end in the middle": form(FILE)[:-200],
    "another boundary": form(FILE).replace(BOUNDARY.encode(), b"----other"),
    "no form at all": b"hello",
    "an empty body": b"",
    "a thousand headers": form(b"x: y\r\n" * 1000 + b"\r\n"),
}


@pytest.mark.parametrize("body", FORMS.values(), ids=FORMS.keys())
def test_forms_that_are_none(client: TestClient, body: bytes) -> None:
    """They are invalid requests, and nothing is kept."""
    before = client.get("/models").json()
    assert expect_problem(client.post("/models", content=body, headers=FORM), "invalid-request").detail
    assert client.get("/models").json() == before


@pytest.mark.parametrize(
    "media_type", ["", "text/plain", "application/octet-stream", "application/x-www-form-urlencoded", "multipart/mixed"]
)
def test_other_media_types_are_refused(client: TestClient, media_type: str) -> None:
    """Models come as JSON that names them or as a form that holds them."""
    headers = {"content-type": media_type} if media_type else {}
    answer = client.post("/models", content=HEADER, headers=headers)
    expect_problem(answer, "unsupported-media")
    assert answer.headers["accept"] == "application/json, multipart/form-data"


def test_a_form_without_boundary(client: TestClient) -> None:
    """It cannot be taken apart."""
    answer = client.post("/models", content=form(FILE), headers={"content-type": "multipart/form-data"})
    assert "boundary" in expect_problem(answer, "invalid-request").detail


def test_uploads_have_a_largest_size(client: TestClient) -> None:
    """Stated or not, more than the limit is too large, and JSON keeps the limit of requests."""
    content = form(part_of("file", HEADER + bytes(17 * MIB), "house.gguf"))
    expect_problem(client.post("/models", content=content, headers=FORM), "too-large")
    expect_problem(client.post("/models", content=pieces(content), headers=FORM), "too-large")
    expect_problem(
        client.post("/models", content=b" " * 2 * MIB, headers={"content-type": "application/json"}), "too-large"
    )
    expect_problem(client.post("/plan", content=content, headers=FORM), "too-large")
    assert upload(client, HEADER + bytes(15 * MIB)).status_code == 201


def pieces(content: bytes) -> Iterator[bytes]:
    """A body in pieces, without a stated length."""
    for start in range(0, len(content), 65_536):
        yield content[start : start + 65_536]


def test_an_upload_is_read_in_bounded_memory(client: TestClient) -> None:
    """A long vocabulary and fifteen mebibytes of weights leave no more than a few mebibytes behind."""
    content = form(part_of("file", VOCABULARY + bytes(7 * MIB), "house.gguf"))
    list(client.get("/models").json())
    tracemalloc.start()
    try:
        answer = client.post("/models", content=pieces(content), headers=FORM)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    expect_problem(answer, "unreadable-model")
    # the test's client collects the body before it sends it, twice
    assert peak_bytes <= 2 * len(content) + 12 * MIB


@pytest.fixture(scope="module")
def server(sqlite: Databases) -> Iterator[httpx2.Client]:
    """A client of a server in its own process."""
    with served(sqlite) as address, httpx2.Client(base_url=address, timeout=30) as client:
        yield client


def test_an_upload_over_the_wire(server: httpx2.Client) -> None:
    """Sixty-four mebibytes in small pieces are read to their end, and the connection goes on."""
    content = form(part_of("file", named_header("Wire") + bytes(64 * MIB), "wire.gguf"), part_of("alias", b"wire"))
    answer = server.post("/models", content=pieces(content), headers=FORM)
    assert answer.status_code == 201, answer.text
    assert server.get("/models/wire").json() == answer.json()


def test_a_bad_upload_over_the_wire_gets_its_answer(server: httpx2.Client) -> None:
    """A client that is still sending reads the problem and no broken connection."""
    content = form(part_of("file", b"nonsense" * 4 * MIB, "bad.gguf"))
    expect_problem(server.post("/models", content=pieces(content), headers=FORM), "unreadable-model")
    assert server.get("/healthz").status_code == 200


def test_hostile_arrays_are_refused_while_they_are_sent(server: httpx2.Client) -> None:
    """A text of 2^63 bytes is not waited for."""
    content = LITTLE.preamble(1, 2) + ARCHITECTURE + LITTLE.array("a", F32, [0.0]) + bytes(8 * MIB)
    claims = content.replace(LITTLE.text("a"), LITTLE.text("a") + ARRAY.to_bytes(4, "little") * 2)
    expect_problem(server.post("/models", files={"file": ("x.gguf", claims)}), "unreadable-model")
