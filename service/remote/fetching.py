"""From a name or address to what is there: a model, a checkpoint, or the list of what could be meant."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import httpx2

from service.core.checkpoints import Checkpoint
from service.core.types import Model
from service.gguf.splits import part_names
from service.remote.checkpoint_files import fetch_checkpoint, is_config
from service.remote.gguf_files import FileProgress, Progress, fetch_gguf, file_name
from service.remote.hubs import ModelHosts, sibling
from service.remote.listing import Listing, choose, list_repository, parts_of
from service.remote.ollama import ollama_blob_url
from service.remote.references import FileAddress, FileReference, HubFile, HubRepository, OllamaModel, Reference
from service.remote.session import HostSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A model or checkpoint, a name for where its own says none, and its address without query or credential."""

    content: Model | Checkpoint
    name: str
    source: str


Found: TypeAlias = Fetched | Listing


def no_progress(_: FileProgress) -> None:
    """Tell nobody."""


def fetch(
    hosts: ModelHosts, reference: Reference, *, authorization: str | None = None, progress: Progress = no_progress
) -> Found:
    """Read headers from where `reference` leads; a repository alone is listed.

    authorization: sent to the origin that `reference` names, and to no other. Raises PlanProblem.
    """
    with HostSession(hosts.access, hosts.origin_of(reference), authorization) as session:
        if isinstance(reference, HubRepository):
            listing = list_repository(session, hosts, reference)
            if reference.quant is None:
                return listing
            path = choose(listing, reference.quant).file
            reference = HubFile(
                hub=reference.hub, repository=reference.repository, revision=reference.revision, path=path
            )
        urls = _urls(session, hosts, reference)
        return Fetched(
            content=_read(session, urls, progress),
            name=_name(reference, urls[0]),
            source=str(urls[0].copy_with(query=None, fragment=None)),
        )


def _urls(session: HostSession, hosts: ModelHosts, reference: FileReference) -> Sequence[httpx2.URL]:
    """Addresses of all parts of the file that is meant."""
    match reference:
        case OllamaModel():
            return (ollama_blob_url(session, hosts, reference),)
        case HubFile():
            return [hosts.file_url(replace(reference, path=part)) for part in parts_of(reference.path)]
        case FileAddress(url=url):
            name = file_name(url)
            names = part_names(name)
            return (url,) if names == (name,) else [sibling(url, part) for part in names]


def _read(session: HostSession, urls: Sequence[httpx2.URL], progress: Progress) -> Model | Checkpoint:
    if is_config(urls[0]):
        return fetch_checkpoint(session, urls[0], progress)
    return fetch_gguf(session, urls, progress)


def _name(reference: FileReference, url: httpx2.URL) -> str:
    match reference:
        case OllamaModel():
            return reference.repository.removeprefix("library/") + f"-{reference.tag}"
        case HubFile() if is_config(url):
            return reference.repository.rpartition("/")[2]
        case _ if is_config(url):
            return url.path.removesuffix("/config.json").rpartition("/")[2] or url.host
        case _:
            return file_name(url).removesuffix(".gguf")
