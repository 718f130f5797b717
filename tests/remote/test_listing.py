"""Repositories and registries lead to files, or to a choice."""

from collections.abc import Sequence

import pytest

from service.core.problems import InvalidRequest, PlanProblem, UnknownModel
from service.gguf.reader import read_header, read_split_headers
from service.remote.fetching import Fetched, Found, fetch
from service.remote.listing import ListedModel, Listing
from service.remote.problems import ModelHostUnavailable, UnreadableRemoteModel
from service.remote.references import read_reference
from tests.remote.files import MODEL, PARTS
from tests.remote.model_host import Answer, ModelHost, document, ranged

REPOSITORY = "owner/name-GGUF"
HF_TREE = f"/hf/api/models/{REPOSITORY}/tree/main"
HF_FILES = {
    "README.md": 900,
    "name-Q4_K_M.gguf": 40,
    "name-UD-Q4_K_M.gguf": 41,
    "name-UD-Q2_K_XL.gguf": 20,
    "name-IQ4_XS.gguf": 38,
    "mmproj-name-F16.gguf": 9,
    "Q8_0/name-Q8_0-00001-of-00002.gguf": 50,
    "Q8_0/name-Q8_0-00002-of-00002.gguf": 30,
    "BF16/name-BF16-00002-of-00002.gguf": 70,
}
MODELS = (
    ListedModel(
        file="BF16/name-BF16-00001-of-00002.gguf",
        size_bytes=70,
        parts=2,
        missing=("BF16/name-BF16-00001-of-00002.gguf",),
    ),
    ListedModel(file="Q8_0/name-Q8_0-00001-of-00002.gguf", size_bytes=80, parts=2),
    ListedModel(file="mmproj-name-F16.gguf", size_bytes=9),
    ListedModel(file="name-IQ4_XS.gguf", size_bytes=38),
    ListedModel(file="name-Q4_K_M.gguf", size_bytes=40),
    ListedModel(file="name-UD-Q2_K_XL.gguf", size_bytes=20),
    ListedModel(file="name-UD-Q4_K_M.gguf", size_bytes=41),
)


def hf_tree(files: Sequence[tuple[str, int]], **headers: str) -> Answer:
    """A list of files as Hugging Face gives it."""
    folder = {"type": "directory", "path": "Q8_0", "size": 0}
    return document([folder, *({"type": "file", "path": path, "size": size} for path, size in files)], **headers)


def found(host: ModelHost, text: str) -> Found:
    return fetch(host.hosts(), read_reference(text))


def test_a_repository_alone_is_listed(host: ModelHost) -> None:
    """Its GGUF files with their sizes, split ones as one; nothing is read of them."""
    host.answers[HF_TREE] = hf_tree(list(HF_FILES.items()))
    listing = found(host, REPOSITORY)
    assert isinstance(listing, Listing)
    assert listing.models == MODELS
    assert [request.path for request in host.requests] == [f"{HF_TREE}?recursive=true"]


def test_a_long_list_is_read_page_by_page(host: ModelHost) -> None:
    """The next page is where the host says, and only there."""
    files = list(HF_FILES.items())
    host.answers[HF_TREE] = hf_tree(files[:5], link=f'<{host.url}/page2?cursor=a>; rel="next"')
    host.answers["/page2"] = hf_tree(files[5:])
    listing = found(host, REPOSITORY)
    assert isinstance(listing, Listing)
    assert listing.models == MODELS


def test_a_list_without_end_is_given_up(host: ModelHost) -> None:
    """Twenty pages are enough."""
    host.answers[HF_TREE] = hf_tree([], link=f'<{host.url}{HF_TREE}>; rel="next"')
    with pytest.raises(ModelHostUnavailable, match="20 pages"):
        found(host, REPOSITORY)
    assert len(host.requests) == 20


QUANTS = {
    "Q4_K_M": "name-Q4_K_M.gguf",
    "q4_k_m": "name-Q4_K_M.gguf",
    "UD-Q4_K_M": "name-UD-Q4_K_M.gguf",
    "Q2_K_XL": "name-UD-Q2_K_XL.gguf",
    "IQ4_XS": "name-IQ4_XS.gguf",
}


@pytest.mark.parametrize(("quant", "file"), QUANTS.items())
def test_a_quant_means_one_file(host: ModelHost, quant: str, file: str) -> None:
    """As it stands in the file's name, whatever its case."""
    host.answers[HF_TREE] = hf_tree(list(HF_FILES.items()))
    host.answers[f"/hf/{REPOSITORY}/resolve/main/{file}"] = ranged(MODEL)
    fetched = found(host, f"hf.co/{REPOSITORY}:{quant}")
    assert isinstance(fetched, Fetched)
    assert fetched.content.id == read_header(MODEL).id
    assert fetched.name == file.removesuffix(".gguf")
    assert fetched.source == f"{host.url}/hf/{REPOSITORY}/resolve/main/{file}"


@pytest.mark.parametrize("quant", ["Q5_K_M", "Q4_XS", "F16"])
def test_a_quant_that_is_not_there(host: ModelHost, quant: str) -> None:
    """The files that are there are suggested; a projector is none of them, and IQ4_XS is not Q4_XS."""
    host.answers[HF_TREE] = hf_tree(list(HF_FILES.items()))
    with pytest.raises(UnknownModel, match=f"no GGUF file of quant '{quant}'") as refused:
        found(host, f"{REPOSITORY}:{quant}")
    assert refused.value.suggestions == tuple(model.file for model in MODELS if not model.file.startswith("mmproj"))


def test_a_quant_of_two_files_is_not_guessed(host: ModelHost) -> None:
    """Both are suggested."""
    host.answers[HF_TREE] = hf_tree([("a-Q8_0.gguf", 1), ("b-Q8_0.gguf", 1)])
    with pytest.raises(InvalidRequest, match=r"a-Q8_0\.gguf or b-Q8_0\.gguf") as refused:
        found(host, f"{REPOSITORY}:Q8_0")
    assert refused.value.suggestions == ("a-Q8_0.gguf", "b-Q8_0.gguf")


def serve_parts(host: ModelHost, folder: str, *names: str) -> None:
    for name in names:
        host.answers[f"{folder}/{name}"] = ranged(PARTS[name])


@pytest.mark.parametrize("named", PARTS)
def test_any_part_of_a_split_model_means_all(host: ModelHost, named: str) -> None:
    """All parts are read, a mebibyte at most of each, and are one model."""
    serve_parts(host, "/files", *PARTS)
    fetched = found(host, f"{host.url}/files/{named}?key=1")
    assert isinstance(fetched, Fetched)
    assert fetched.content.id == read_split_headers(list(PARTS.values())).id
    assert [request.path for request in host.requests] == [f"/files/{name}?key=1" for name in PARTS]
    assert fetched.source == f"{host.url}/files/m-00001-of-00003.gguf"


def test_parts_that_are_missing_are_named(host: ModelHost) -> None:
    """Every one of them, not only the first."""
    serve_parts(host, "/files", "m-00002-of-00003.gguf")
    with pytest.raises(UnreadableRemoteModel) as refused:
        found(host, f"{host.url}/files/m-00001-of-00003.gguf")
    assert refused.value.status == 502
    assert refused.value.detail == (
        "2 of the 3 parts of the model are not at 127.0.0.1: m-00001-of-00003.gguf, m-00003-of-00003.gguf."
    )


def test_parts_of_two_models_are_refused(host: ModelHost) -> None:
    """Names alone do not make parts belong together."""
    serve_parts(host, "/files", *PARTS)
    host.answers["/files/m-00002-of-00003.gguf"] = ranged(MODEL)
    with pytest.raises(UnreadableRemoteModel, match="different models"):
        found(host, f"{host.url}/files/m-00001-of-00003.gguf")


def test_a_part_of_thousands_is_asked_for_alone(host: ModelHost) -> None:
    """A name cannot make the fetcher ask ten thousand times."""
    host.answers["/m-00001-of-65535.gguf"] = ranged(PARTS["m-00001-of-00003.gguf"])
    with pytest.raises(UnreadableRemoteModel, match="split into 3 parts"):
        found(host, f"{host.url}/m-00001-of-65535.gguf")
    assert len(host.requests) == 1


def test_modelscope_lists_and_serves(host: ModelHost) -> None:
    """Its list has other names, its files another branch."""
    files = [{"Type": "tree", "Path": "x", "Size": 0}, {"Type": "blob", "Path": "x/m-Q8_0.gguf", "Size": 7}]
    host.answers["/ms/api/v1/models/owner/name/repo/files"] = document({"Code": 200, "Data": {"Files": files}})
    host.answers["/ms/models/owner/name/resolve/master/x/m-Q8_0.gguf"] = ranged(MODEL)
    listing = found(host, "modelscope.cn/owner/name")
    assert isinstance(listing, Listing)
    assert listing.models == (ListedModel(file="x/m-Q8_0.gguf", size_bytes=7),)
    fetched = found(host, "modelscope.cn/owner/name:Q8_0")
    assert isinstance(fetched, Fetched)
    assert fetched.content.id == read_header(MODEL).id
    assert host.requests[0].path.endswith("?Revision=master&Recursive=true")


DIGEST = "sha256:" + "ab" * 32


def manifest(*layers: dict[str, str]) -> Answer:
    return document({"schemaVersion": 2, "layers": list(layers)})


def test_ollama_names_lead_to_a_blob(host: ModelHost) -> None:
    """The layer of the model's type is the GGUF file."""
    host.answers["/ollama/v2/library/llama3.2/manifests/3b"] = manifest(
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "cd" * 32},
        {"mediaType": "application/vnd.ollama.image.model", "digest": DIGEST},
    )
    host.answers[f"/ollama/v2/library/llama3.2/blobs/{DIGEST}"] = ranged(MODEL)
    fetched = found(host, "llama3.2:3b")
    assert isinstance(fetched, Fetched)
    assert (fetched.content.id, fetched.name) == (read_header(MODEL).id, "llama3.2-3b")


@pytest.mark.parametrize(
    ("answer", "problem", "said"),
    [
        (manifest(), UnknownModel, "has no GGUF file"),
        (
            manifest({"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../x"}),
            UnknownModel,
            "has no GGUF file",
        ),
        (document({"errors": []}), ModelHostUnavailable, "has no layers"),
        (document([]), ModelHostUnavailable, "has no layers"),
        (lambda exchange: exchange.answer(200, b"<html>"), UnreadableRemoteModel, "is not JSON"),
        (lambda exchange: exchange.answer(200, b" " * 5_000_000), UnreadableRemoteModel, "is longer than"),
        (lambda exchange: exchange.answer(200, b"[" * 100_000), UnreadableRemoteModel, "is not JSON"),
    ],
)
def test_a_registry_that_answers_otherwise(
    host: ModelHost, answer: Answer, problem: type[PlanProblem], said: str
) -> None:
    """What does not look like a manifest is a problem and no guess."""
    host.answers["/ollama/v2/library/m/manifests/latest"] = answer
    with pytest.raises(problem, match=said):
        found(host, "m")
