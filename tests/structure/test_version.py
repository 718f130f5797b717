"""The version that the service states of itself."""

import tomllib
from pathlib import Path

from service import __version__

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_service_states_the_version_of_its_package() -> None:
    """One that is installed from a wheel and one that runs from a checkout say the same."""
    assert __version__ == tomllib.loads(PROJECT.read_text("utf-8"))["project"]["version"]
