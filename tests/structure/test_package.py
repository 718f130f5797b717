"""The wheel holds everything a service needs, and finds it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from service.builtin import builtin_folder
from tests.structure.repository import ROOT

LOCATE = """
from service.builtin import builtin_folder, state_folder
for name in ("hardware_db", "model_db", "migrations"):
    print(builtin_folder(name))
print(state_folder())
"""


def test_checkout_uses_its_own_data() -> None:
    """In a checkout the built-in data is the folder beside the package."""
    assert builtin_folder("hardware_db") == ROOT / "hardware_db"


def test_wheel_carries_the_builtin_data(tmp_path: Path) -> None:
    """A wheel installed elsewhere finds catalogues and migrations inside itself, and writes outside itself."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT],
        check=True,
    )
    (wheel,) = tmp_path.glob("rigfit-*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    environment = os.environ | {"PYTHONPATH": str(site), "HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", LOCATE], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    builtin = site / "service" / "_builtin"
    assert ran.stdout.split() == [
        *(str(builtin / name) for name in ("hardware_db", "model_db", "migrations")),
        str(tmp_path / ".local" / "share" / "rigfit"),
    ]
    shipped = {path.relative_to(builtin) for path in builtin.rglob("*") if path.is_file()}
    for folder in ("hardware_db", "model_db", "migrations/versions"):
        held = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert {path for path in held if "__pycache__" not in path.parts} <= shipped
