"""`rigfit models import` of addresses, repositories and files, and plans of addresses."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from service.gguf.reader import read_header
from tests.databases import Databases, migrate_and_seed
from tests.remote.llama import HEADER, SIZE_BYTES, split_headers
from tests.remote.model_host import ModelHost, model_host, ranged
from tests.remote.test_listing import hf_tree
from tests.servers import COMMAND

REPOSITORY = "house/House-3.2-1B-GGUF"
FILE = "House-3.2-1B-Q4_K_M.gguf"


@pytest.fixture
def host() -> Iterator[ModelHost]:
    """A model host with one repository and one split model."""
    with model_host() as host:
        host.answers[f"/hf/api/models/{REPOSITORY}/tree/main"] = hf_tree([(FILE, SIZE_BYTES)])
        host.answers[f"/hf/{REPOSITORY}/resolve/main/{FILE}"] = ranged(HEADER, SIZE_BYTES)
        for name, content in split_headers("House 3.2 1B Instruct", 3).items():
            host.answers[f"/{name}"] = ranged(content, SIZE_BYTES)
        yield host


@pytest.fixture
def environment(sqlite: Databases, host: ModelHost) -> Mapping[str, str]:
    """Environment with a database of one test's own and the model host as Hugging Face."""
    return os.environ | {
        "RIGFIT_DATABASE_URL": sqlite.copy_of("seeded", migrate_and_seed),
        "RIGFIT_MODEL_HOSTS": "huggingface.co, *.hf.co",
        "RIGFIT_PRIVATE_MODEL_HOSTS": host.url,
        "RIGFIT_HUGGING_FACE_URL": f"{host.url}/hf",
        "COLUMNS": "120",
        "NO_COLOR": "1",
    }


def rigfit(*arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], env=environment, check=False, capture_output=True, text=True)


def test_a_quant_of_a_repository(environment: Mapping[str, str], host: ModelHost) -> None:
    """Progress is told on the standard error, name and id on the standard output; the name can be planned."""
    source = f"hf.co/{REPOSITORY}:Q4_K_M"
    ran = rigfit("models", "import", source, "--alias", "team/house", "--hf-token", "hf_x", environment=environment)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"team/house  {read_header(HEADER).id}\n"
    assert f"reading the header of {FILE} (of 2.00 GB)" in ran.stderr
    assert {request.headers.get("authorization") for request in host.requests} == {"Bearer hf_x"}
    again = rigfit("models", "import", source, environment=environment)
    assert again.stdout == f"house-3.2-1b-instruct:Q4_K_M  {read_header(HEADER).id}  (was there already)\n"
    planned = rigfit("plan", "team/house", "--gpu", "rtx-3090", "-c", "2048", "--json", environment=environment)
    assert json.loads(planned.stdout)["model"]["id"] == read_header(HEADER).id


def test_several_sources_and_a_split_one(environment: Mapping[str, str], host: ModelHost, tmp_path: Path) -> None:
    """All parts are read, each with its line; a file of this computer and the split one are the same model."""
    path = tmp_path / "house.gguf"
    path.write_bytes(HEADER)
    ran = rigfit("models", "import", f"{host.url}/house-00002-of-00003.gguf", str(path), environment=environment)
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    assert second == f"{first}  (was there already)"
    assert [f"house-0000{number}-of-00003.gguf" in ran.stderr for number in (1, 2, 3)] == [True] * 3


def test_a_repository_alone_is_listed(environment: Mapping[str, str]) -> None:
    """Its files with their sizes and how to go on; nothing was imported, which the exit status says."""
    ran = rigfit("models", "import", REPOSITORY, environment=environment)
    assert ran.returncode == 3
    assert any(line.split() == [FILE, "2.00", "1"] for line in ran.stdout.splitlines())
    assert f"rigfit models import {REPOSITORY}/FILE" in ran.stdout
    named = rigfit("models", "import", f"{REPOSITORY}/{FILE}", environment=environment)
    assert named.returncode == 0, named.stderr


def test_an_address_is_planned_without_importing_it(environment: Mapping[str, str], host: ModelHost) -> None:
    """By flags and in a request; nothing but the plan is on the standard output."""
    url = f"{host.url}/house-00001-of-00003.gguf"
    ran = rigfit("plan", url, "--gpu", "rtx-3090", "-c", "2048", "--json", environment=environment)
    assert json.loads(ran.stdout)["model"]["id"] == read_header(HEADER).id
    host.answers["/house-00002-of-00003.gguf"] = lambda exchange: exchange.answer(503)
    failed = rigfit("plan", url, "--gpu", "rtx-3090", "--json", environment=environment)
    assert failed.returncode == 2
    assert json.loads(failed.stdout)["type"] == "/problems/model-host-unavailable"
    assert "attempt 1 failed, the next is in" in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("import",), "Name one or more"),
        (("import", "a/b", "c/d", "--alias", "x"), "import one at a time"),
        (("import", "https://evil.example/x.gguf"), "Models are not fetched from evil.example"),
        (("import", "https://huggingface.co:8443/a/b/resolve/main/x.gguf"), "from port 8443"),
        (("import", "house/absent"), "is not there"),
        (("import", f"{REPOSITORY}:Q8_0"), "no GGUF file of quant 'Q8_0'"),
        (("import", f"{REPOSITORY}/{FILE}", "--alias", "llama-3.3-70b"), "the name of another model"),
        (("llama", "--alias", "x"), "belong to an import"),
    ],
)
def test_what_cannot_be_imported(environment: Mapping[str, str], arguments: tuple[str, ...], said: str) -> None:
    """A sentence says why, with status 2."""
    ran = rigfit("models", *arguments, environment=environment)
    assert ran.returncode == 2, ran.stdout
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_part_that_is_missing_is_named(environment: Mapping[str, str], host: ModelHost) -> None:
    """Nothing is kept of the parts that are there."""
    del host.answers["/house-00002-of-00003.gguf"]
    ran = rigfit("models", "import", f"{host.url}/house-00001-of-00003.gguf", environment=environment)
    assert ran.returncode == 2
    assert "house-00002-of-00003.gguf" in ran.stderr
    assert "house" not in rigfit("models", "house", environment=environment).stdout.splitlines()[0]
