"""GGUF headers of other hosts: all parts of a model, never its weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import httpx2

from service.core.problems import UnknownModel, UnreadableModel
from service.core.types import Model
from service.gguf.header import Header, read_file_header
from service.gguf.reader import read_part_headers
from service.remote.problems import UnreadableRemoteModel
from service.remote.ranges import RemoteFile
from service.remote.session import HostSession


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProgress:
    """How much of one file's header has been read; file_bytes None where the host does not say."""

    file: str
    read_bytes: int
    file_bytes: int | None


Progress: TypeAlias = Callable[[FileProgress], None]


def fetch_gguf(session: HostSession, urls: Sequence[httpx2.URL], progress: Progress) -> Model:
    """The model whose parts lie at `urls`; raises PlanProblem, which names every part that is missing."""
    headers: list[Header] = []
    missing: list[str] = []
    for url in urls:
        try:
            headers.append(_fetch_header(session, url, progress))
        except UnknownModel:
            if len(urls) == 1:
                raise
            missing.append(file_name(url))
    if missing:
        shown = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
        raise UnreadableRemoteModel(
            f"{len(missing)} of the {len(urls)} parts of the model are not at {urls[0].host}: {shown}."
        )
    try:
        return read_part_headers(headers)
    except UnreadableModel as refused:
        raise UnreadableRemoteModel(f"{file_name(urls[0])}: {refused.detail}") from None


def _fetch_header(session: HostSession, url: httpx2.URL, progress: Progress) -> Header:
    def tell(read_bytes: int, file_bytes: int | None) -> None:
        progress(FileProgress(file=file_name(url), read_bytes=read_bytes, file_bytes=file_bytes))

    with RemoteFile(session, url, tell) as file:
        try:
            return read_file_header(file, file_bytes=file.size_bytes)
        except UnreadableRemoteModel:
            raise
        except UnreadableModel as refused:
            raise UnreadableRemoteModel(f"{file_name(url)}: {refused.detail}") from None


def file_name(url: httpx2.URL) -> str:
    """Last part of an address's path."""
    return url.path.rpartition("/")[2]
