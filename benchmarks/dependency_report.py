"""What the service installs, and under which licences: `python -m benchmarks.dependency_report > docs/dependencies.md`.

Versions are those of requirements-tracing.txt, which is requirements.txt and the extra `tracing`; licences what each
installed package says of itself.
"""

import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path
from typing import Final

WIDTH: Final = 120
ROOT: Final = Path(__file__).resolve().parents[1]
_PIN: Final = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>[\w.!+]+)", re.MULTILINE)
_CONSTRAINT: Final = "-c"
# identifiers of SPDX for what packages without a licence expression say. Source: spdx.org/licenses, 3.27
_SPDX: Final[Mapping[str, str]] = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
PERMISSIVE: Final = frozenset(
    {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "PSF-2.0", "Zlib"}
)
FILE_COPYLEFT: Final = frozenset({"LGPL-3.0-only", "MPL-2.0"})
"""Changes of these packages would have to be published; they are installed as they are and imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """One package with its pinned versions, its licence as an SPDX expression, and what needs it.

    is_extra: whether it is installed for traces alone.
    """

    name: str
    versions: tuple[str, ...]
    licence: str
    needed_by: tuple[str, ...]
    is_extra: bool

    @property
    def licences(self) -> frozenset[str]:
        """Every licence that its expression names."""
        return frozenset(re.findall(r"[\w.-]+", self.licence)) - {"AND", "OR", "WITH"}


def dependencies() -> Iterator[Dependency]:
    """Every package of requirements-tracing.txt that this system installs, by name."""
    always = {pin["name"] for pin in _PIN.finditer((ROOT / "requirements.txt").read_text("utf-8"))}
    pins: dict[str, tuple[str, ...]] = {}
    needed_by: dict[str, tuple[str, ...]] = {}
    for block in re.split(r"\n(?=[a-z0-9])", (ROOT / "requirements-tracing.txt").read_text("utf-8")):
        pin = _PIN.match(block)
        if pin is not None:
            pins[pin["name"]] = (*pins.get(pin["name"], ()), pin["version"])
            named = re.findall(r"^    #(?: via (?=\S)|   )(\S+)", block, re.MULTILINE)
            needed_by[pin["name"]] = tuple(name for name in named if name != _CONSTRAINT)
    for name, versions in sorted(pins.items()):
        try:
            found = metadata(name)
        except PackageNotFoundError:
            continue
        yield Dependency(
            name=name,
            versions=versions,
            licence=licence_of(found),
            needed_by=needed_by[name],
            is_extra=name not in always,
        )


def licence_of(found: PackageMetadata) -> str:
    """What a package says of itself: an SPDX expression, else a short field, else its classifiers, else "unknown"."""
    said = found.json
    stated = str(said.get("license_expression", ""))
    if stated:
        return stated
    field = str(said.get("license", "")).strip()
    field = _SPDX.get(field, field)
    if field and "\n" not in field and not field.endswith("License"):
        return field
    classified = [name.rpartition(" :: ")[2] for name in said.get("classifier", ()) if name.startswith("License")]
    return " OR ".join(_SPDX.get(name, name) for name in classified) or "unknown"


def report() -> str:
    """The table, as Markdown."""
    found = list(dependencies())
    counts = Counter(dependency.licence for dependency in found).most_common()
    kept = ", ".join(dependency.name for dependency in found if dependency.licences & FILE_COPYLEFT)
    written = (
        "Written by `python -m benchmarks.dependency_report > docs/dependencies.md`; a test compares it with "
        "[requirements-tracing.txt](../requirements-tracing.txt), which pins and hashes every package: those of "
        "[requirements.txt](../requirements.txt) and those of the extra `tracing`. What Windows alone needs is left "
        "out."
    )
    counted = f"{len(found)} packages: {', '.join(f'{count} {licence}' for licence, count in counts)}."
    permissive = (
        f"All are permissive but {kept}: they are installed as they are and imported; changes of them would have to be "
        "published."
    )
    paragraphs = (written, counted, permissive)
    lines = [
        "# What the service installs",
        "",
        *(line for paragraph in paragraphs for line in (textwrap.fill(paragraph, WIDTH, break_on_hyphens=False), "")),
        "| package | version | licence | needed by |",
        "| --- | --- | --- | --- |",
    ]
    for one in found:
        own = "the extra tracing" if one.is_extra else "the service"
        needed_by = ", ".join(own if name == "rigfit" else name for name in one.needed_by)
        lines.append(f"| {one.name} | {' / '.join(one.versions)} | {one.licence} | {needed_by} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(report())
