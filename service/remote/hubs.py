"""Hubs that keep models in repositories: one row each, with its addresses and the form of its list of files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx2

from service.core.problems import InvalidRequest
from service.remote.documents import list_of
from service.remote.hosts import Origin, origin, parse_url
from service.remote.references import FileAddress, HubFile, HubName, OllamaModel, Reference
from service.remote.session import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class HubEntry:
    """A file of a repository."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """One hub: paths of a file (repository, revision, path) and of the list of files (repository, revision)."""

    title: str
    usual_revision: str
    file_path: str
    list_path: str
    read_list: Callable[[Any, str], list[HubEntry]]


def _hugging_face_list(document: Any, host: str) -> list[HubEntry]:
    files = [item for item in list_of({"files": document}, "files", host) if isinstance(item, Mapping)]
    return [_entry(item.get("path"), item.get("size")) for item in files if item.get("type") == "file"]


def _modelscope_list(document: Any, host: str) -> list[HubEntry]:
    data = document.get("Data") if isinstance(document, Mapping) else None
    files = [item for item in list_of(data, "Files", host) if isinstance(item, Mapping)]
    return [_entry(item.get("Path"), item.get("Size")) for item in files if item.get("Type") == "blob"]


def _entry(path: object, size_bytes: object) -> HubEntry:
    return HubEntry(path=str(path)[:400], size_bytes=size_bytes if isinstance(size_bytes, int) else 0)


HUBS: Mapping[HubName, Hub] = {
    # Source: huggingface_hub, constants.py (HUGGINGFACE_CO_URL_TEMPLATE) and hf_api.py (list_repo_tree)
    "huggingface": Hub(
        title="Hugging Face",
        usual_revision="main",
        file_path="{repository}/resolve/{revision}/{path}",
        list_path="api/models/{repository}/tree/{revision}?recursive=true",
        read_list=_hugging_face_list,
    ),
    # Source: modelscope, modelscope/hub/api.py (get_model_files) and hub/file_download.py
    "modelscope": Hub(
        title="ModelScope",
        usual_revision="master",
        file_path="models/{repository}/resolve/{revision}/{path}",
        list_path="api/v1/models/{repository}/repo/files?Revision={revision}&Recursive=true",
        read_list=_modelscope_list,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHosts:
    """Where hubs and registries are, and what fetching from them may do.

    hub_urls: address of each hub, its own or a mirror's. ollama_url: address of Ollama's registry.
    """

    access: Access
    hub_urls: Mapping[HubName, str] = field(
        default_factory=lambda: {"huggingface": "https://huggingface.co", "modelscope": "https://www.modelscope.cn"}
    )
    ollama_url: str = "https://registry.ollama.ai"

    def file_url(self, file: HubFile) -> httpx2.URL:
        """Address of a file of a repository."""
        hub = HUBS[file.hub]
        return self._hub_url(file.hub, hub.file_path, file.repository, file.revision, quote(file.path))

    def list_url(self, hub_name: HubName, repository: str, revision: str | None) -> httpx2.URL:
        """Address of the list of a repository's files."""
        return self._hub_url(hub_name, HUBS[hub_name].list_path, repository, revision, "")

    def _hub_url(
        self, hub_name: HubName, template: str, repository: str, revision: str | None, path: str
    ) -> httpx2.URL:
        revision = quote(revision or HUBS[hub_name].usual_revision, safe="")
        filled = template.format(repository=repository, revision=revision, path=path)
        return parse_url(f"{self.hub_urls[hub_name].rstrip('/')}/{filled}")

    def ollama_path(self, path: str) -> httpx2.URL:
        """Address in Ollama's registry."""
        return parse_url(f"{self.ollama_url.rstrip('/')}/v2/{path}")

    def origin_of(self, reference: Reference) -> Origin:
        """The origin that a credential given with `reference` is meant for."""
        match reference:
            case FileAddress():
                return origin(reference.url)
            case OllamaModel():
                return origin(parse_url(self.ollama_url))
            case _:
                return origin(parse_url(self.hub_urls[reference.hub]))


def sibling(url: httpx2.URL, file_name: str) -> httpx2.URL:
    """Address of another file beside the one at `url`; raises InvalidRequest where `url` names no file."""
    folder, slash, _ = url.raw_path.partition(b"?")[0].rpartition(b"/")
    if not slash:
        raise InvalidRequest(f"{url.host} alone is no address of a file.")
    query = url.raw_path.partition(b"?")[2]
    raw_path = folder + slash + quote(file_name).encode("ascii") + (b"?" + query if query else b"")
    return url.copy_with(raw_path=raw_path)
