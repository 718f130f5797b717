"""What the steps of the Dockerfile make serves, without privileges, from files that it cannot change."""

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.containers.dockerfile import IMAGE_PATHS, NEEDS_ROOT, Image, instructions, last
from tests.faults.test_database_away import eventually
from tests.servers import free_port, wait_until_ready

pytestmark = pytest.mark.xdist_group("image")

QUESTION = {"model": "llama-3.1-8b:Q4_K_M", "rig": {"gpus": ["rtx-3090"]}, "workload": {"context_tokens": 8192}}


# root may write anywhere; without its capabilities it may not, but still reads a Python that is its own
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []


@pytest.fixture(scope="module")
def address(image: Image) -> Iterator[str]:
    """The image's own command, with its environment alone, on a root that it may not write to."""
    data = Path(image.here(image.workdir))
    take_away_writing(image.root)
    data.chmod(0o777)
    port = free_port()
    with started(image, {"RIGFIT_PORT": str(port), "RIGFIT_HOST": "127.0.0.1"}) as process:
        wait_until_ready(process, f"http://127.0.0.1:{port}/readyz")
        yield f"http://127.0.0.1:{port}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in {0, -signal.SIGTERM}


def take_away_writing(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))


@contextmanager
def started(image: Image, settings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the image's command until the end of the block."""
    command = [*UNPRIVILEGED, *image.command(last("CMD"))]
    environment = image.environment | {"RIGFIT_DRAIN_S": "0"} | settings
    with subprocess.Popen(command, cwd=image.here(image.workdir), env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_image_answers_a_plan(address: str) -> None:
    """A fresh environment with the wheel in it migrates its database, serves and plans."""
    plan = httpx2.post(f"{address}/plan", json=QUESTION, timeout=20)
    assert plan.status_code == 200
    assert plan.json()["verdict"] == "fits"
    assert httpx2.post(f"{address}/plans", json=QUESTION, timeout=20).status_code == 201


def test_the_health_check_tells_up_from_down(image: Image, address: str) -> None:
    """It succeeds while the service answers, and fails where nothing does."""
    check = last("HEALTHCHECK").text.partition("CMD ")[2]
    command = image.command(type(last("CMD"))("CMD", check))
    port = address.rpartition(":")[2]
    image.run([word.replace(":8000", f":{port}") for word in command])
    with pytest.raises(subprocess.CalledProcessError):
        image.run([word.replace(":8000", f":{free_port()}") for word in command])


def test_traces_are_refused_where_their_packages_are_not(image: Image) -> None:
    """The image as it is built by default says how to get them, and does not serve without."""
    command = image.command(type(last("CMD"))("CMD", '["rigfit", "serve"]'))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        image.run(command, RIGFIT_TRACES="true")
    assert refused.value.returncode == 2
    assert "requirements-tracing.txt" in refused.value.stderr
    assert "Traceback" not in refused.value.stderr


def test_nothing_is_written_outside_its_data(image: Image, address: str) -> None:
    """Nothing could be, and after a plan nothing but the database and the plan's graphs was: no byte code."""
    assert httpx2.post(f"{address}/plan", json=QUESTION, timeout=20).status_code == 200
    package = image.root / "opt" / "rigfit"
    with pytest.raises(subprocess.CalledProcessError):
        image.run([*UNPRIVILEGED, "touch", str(package / "written")])
    data = Path(image.here(image.workdir))
    assert eventually((data / "cache").is_dir, within_s=10)
    assert {path.name.partition("-")[0] for path in data.iterdir()} == {"rigfit.sqlite3", "cache"}
    began = (data / "rigfit.sqlite3").stat().st_ctime
    assert all(path.lstat().st_mtime < began for path in image.root.rglob("*") if data not in (path, *path.parents))


def test_the_user_is_made_as_it_is_named(image: Image) -> None:
    """USER is a number, as read-only and rootless engines want it, that RUN gave an account and the data folder."""
    calls = "".join(path.read_text("utf-8") for path in sorted((image.root.parent / "programs").glob("*.calls")))
    uid, gid = map(int, last("USER").text.split(":"))
    assert uid > 0
    assert f"--uid {uid} " in calls
    assert f"--gid {gid} " in calls
    assert f"--owner rigfit --group rigfit {image.here(image.workdir)}" in calls
    assert all(name in calls for name in NEEDS_ROOT)


def test_the_second_stage_has_what_it_copies_alone(image: Image) -> None:
    """Neither the sources nor the tools that build are in the image."""
    assert {path.name for path in (image.root / "opt").iterdir()} == {"rigfit"}
    assert not (image.root / "src").exists()
    stages = [instruction.text for instruction in instructions() if instruction.keyword == "FROM"]
    assert len(stages) == 2
    assert IMAGE_PATHS.sub("", stages[-1]) == stages[-1]
