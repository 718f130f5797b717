"""The README's table of settings, as the class states them; `python -m tests.structure.settings_table` writes it."""

import re
from typing import Any

from pydantic_core import PydanticUndefined

from service.settings import Settings
from tests.structure.repository import ROOT

README = ROOT / "README.md"
BEGINNING, END = "<!-- written by python -m tests.structure.settings_table -->\n", "<!-- end of the settings -->"
BETWEEN = re.compile(f"(?<={re.escape(BEGINNING)}).*?(?={END})", re.DOTALL)


def table() -> str:
    """Every setting as its variable, default and description, in the order of the class."""
    prefix = Settings.model_config["env_prefix"]
    rows = (
        f"| `{prefix}{name.upper()}` | {shown(field.default)} | {' '.join((field.description or '').split())} |"
        for name, field in Settings.model_fields.items()
    )
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows]) + "\n"


def shown(default: Any) -> str:
    """A default as it would be set, nothing where there is none."""
    if default is PydanticUndefined:
        return "an SQLite file"
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, tuple):
        return ", ".join(f"`{value}`" for value in default)
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def written() -> str:
    """What stands in the README's place for it; raises ValueError where there is no such place."""
    found = BETWEEN.search(README.read_text("utf-8"))
    if found is None:
        raise ValueError("README.md has no place for the table of settings")
    return found[0]


if __name__ == "__main__":
    README.write_text(BETWEEN.sub(lambda _: table(), README.read_text("utf-8")), "utf-8")
