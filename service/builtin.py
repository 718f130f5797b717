"""Where the data that ships with the package lies: beside it in a checkout, inside it in a wheel."""

from functools import cache
from pathlib import Path
from typing import Literal

BuiltinFolder = Literal["hardware_db", "model_db", "migrations"]

PACKAGE = Path(__file__).resolve().parent
CHECKOUT = PACKAGE.parent


@cache
def builtin_folder(name: BuiltinFolder) -> Path:
    """Find a folder of built-in data.

    Raises FileNotFoundError where neither place has it, which means a broken installation.
    """
    for place in (PACKAGE / "_builtin" / name, CHECKOUT / name):
        if place.is_dir():
            return place
    raise FileNotFoundError(f"the installation of rigfit lacks its folder {name}: install it again")


def state_folder() -> Path:
    """Folder for what an installation writes: `var/` of a checkout, else the user's data folder."""
    if (CHECKOUT / "pyproject.toml").is_file():
        return CHECKOUT / "var"
    return Path.home() / ".local" / "share" / "rigfit"


def embedded_database_path() -> Path:
    """SQLite file used where no other database is named."""
    return state_folder() / "rigfit.sqlite3"
