"""What the program is: digests of its sources, so that two builds are never taken for one."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from service.builtin import PACKAGE


def source_files(*parts: str) -> Iterable[tuple[str, Path]]:
    """Python files of parts of the service (`core`), by their names from its folder on, in order."""
    for part in parts:
        yield from ((path.relative_to(PACKAGE).as_posix(), path) for path in sorted((PACKAGE / part).rglob("*.py")))


def digest_of_files(files: Iterable[tuple[str, Path]]) -> str:
    """Digest of files by name and content, in hexadecimal."""
    digest = hashlib.sha256()
    for name, path in files:
        content = path.read_bytes()
        digest.update(f"{name} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def digest_of_sources(*parts: str) -> str:
    """Digest of all Python files of parts of the service."""
    return digest_of_files(source_files(*parts))
