"""What the program is: digests of its sources, so that two builds are never taken for one."""

import hashlib
import os
from collections.abc import Iterable, Iterator

from service.builtin import PACKAGE


def source_files(*parts: str) -> Iterator[tuple[str, str]]:
    """Python files of parts of the service (`core`): names from its folder on, in a fixed order, and paths."""
    package = str(PACKAGE)
    for part in parts:
        for folder, folders, names in os.walk(os.path.join(package, part)):  # noqa: PTH118 - paths take twice as long
            folders.sort()
            within = folder[len(package) + 1 :].replace(os.sep, "/")
            yield from ((f"{within}/{name}", f"{folder}/{name}") for name in sorted(names) if name.endswith(".py"))


def digest_of_files(files: Iterable[tuple[str, str]]) -> str:
    """Digest of files by name and content, in hexadecimal."""
    digest = hashlib.sha256()
    for name, path in files:
        with open(path, "rb") as file:  # noqa: PTH123 - as above: 300 files each time a plan is asked for
            content = file.read()
        digest.update(f"{name} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def digest_of_sources(*parts: str) -> str:
    """Digest of all Python files of parts of the service."""
    return digest_of_files(source_files(*parts))
