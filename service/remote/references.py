"""The ways to name a model on another host, read into what they mean; nothing is asked yet."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import unquote

import httpx2

from service.core.problems import InvalidRequest
from service.remote.hosts import parse_url

HubName: TypeAlias = Literal["huggingface", "modelscope"]

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_TAG = re.compile(r"[\w][\w.-]{0,127}", re.ASCII)
_FILE_ENDINGS = (".gguf", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAddress:
    """A file at an address of its own."""

    url: httpx2.URL


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file of a repository; revision None is the hub's usual branch."""

    hub: HubName
    repository: str
    revision: str | None = None
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRepository:
    """A repository, and the quant that is wanted of it where one was named."""

    hub: HubName
    repository: str
    revision: str | None = None
    quant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaModel:
    """A model of Ollama's registry: namespace/name and a tag."""

    repository: str
    tag: str


FileReference: TypeAlias = FileAddress | HubFile | OllamaModel
Reference: TypeAlias = FileReference | HubRepository


def read_reference(text: str) -> Reference:
    """What a name or address means.

    An address of a file; `owner/repo`, `owner/repo:quant` or `owner/repo/file` of Hugging Face, also behind `hf.co/` or
    `huggingface.co/`; the same behind `modelscope.cn/`; `name:tag` of Ollama's library, or any of its models behind
    `ollama.com/`. Raises InvalidRequest for what is none of these.
    """
    text = text.strip()
    if "://" in text:
        return _of_url(parse_url(text))
    host, slash, rest = text.partition("/")
    if slash and host.lower() in _READERS:
        return _of_url(parse_url(f"https://{host}/{rest}"))
    if not slash:
        return _ollama([text])
    return _hugging_face(text.split("/"))


def read_repository(text: str, file: str | None, revision: str | None) -> Reference:
    """What a repository means, with one of its files and a revision where they are given beside it.

    Raises InvalidRequest for an address of another kind, and for a file beside something that has none to choose from.
    """
    reference = read_reference(text)
    if isinstance(reference, FileAddress):
        raise InvalidRequest(f"{text[:200]!r} is no repository: give it as url.", fields=("repo",))
    if file is None and revision is None:
        return reference
    if not isinstance(reference, HubRepository) or (file is not None and reference.quant is not None):
        raise InvalidRequest(
            f"{text[:200]!r} names a file already, or has none to choose from.", fields=("file", "revision")
        )
    revision = revision or reference.revision
    if file is None:
        return hub_repository(reference.hub, reference.repository, revision, reference.quant)
    return hub_file(reference.hub, reference.repository, file, revision)


def _of_url(url: httpx2.URL) -> Reference:
    reader = _READERS.get(url.host)
    segments = [unquote(part) for part in url.raw_path.decode("ascii").partition("?")[0].split("/") if part]
    if reader is None or url.userinfo or url.port is not None or url.scheme != "https":
        return FileAddress(url=url.copy_with(fragment=None))
    if not segments:
        raise _no_reference([url.host])
    return reader(segments)


def _hugging_face(segments: Sequence[str]) -> Reference:
    match segments:
        case [owner, name]:
            return _repository("huggingface", owner, name)
        case [owner, name, "tree", revision, *_]:
            return _repository("huggingface", owner, name, revision)
        case [owner, name, "resolve" | "blob" | "raw", revision, *path] if path:
            return hub_file("huggingface", f"{owner}/{name}", "/".join(path), revision)
        case [owner, name, *path] if path and path[-1].endswith(_FILE_ENDINGS):
            return hub_file("huggingface", f"{owner}/{name}", "/".join(path))
    raise _no_reference(segments)


def _modelscope(segments: Sequence[str]) -> Reference:
    match segments:
        case ["models", *rest] if rest:
            return _modelscope(rest)
        case [owner, name] | [owner, name, "summary" | "files"]:
            return _repository("modelscope", owner, name)
        case [owner, name, "resolve", revision, *path] | [owner, name, "file", "view", revision, *path] if path:
            return hub_file("modelscope", f"{owner}/{name}", "/".join(path), revision)
        case [owner, name, *path] if path and path[-1].endswith(_FILE_ENDINGS):
            return hub_file("modelscope", f"{owner}/{name}", "/".join(path))
    raise _no_reference(segments)


def _ollama(segments: Sequence[str]) -> Reference:
    *namespace, last = segments
    name, colon, tag = last.partition(":")
    tag = tag if colon else "latest"
    if len(namespace) > 1 or not all(map(_NAME.fullmatch, [*namespace, name])) or not _TAG.fullmatch(tag):
        raise _no_reference(segments)
    return OllamaModel(repository=f"{namespace[0] if namespace else 'library'}/{name}", tag=tag)


def _repository(hub: HubName, owner: str, name: str, revision: str | None = None) -> HubRepository:
    name, colon, quant = name.partition(":")
    if colon and not _TAG.fullmatch(quant):
        raise _no_reference([owner, f"{name}:{quant}"])
    return hub_repository(hub, f"{owner}/{name}", revision, quant or None)


def hub_repository(hub: HubName, repository: str, revision: str | None, quant: str | None) -> HubRepository:
    """A repository with checked names; raises InvalidRequest."""
    _check(repository, revision)
    return HubRepository(hub=hub, repository=repository, revision=revision, quant=quant)


def hub_file(hub: HubName, repository: str, path: str, revision: str | None = None) -> HubFile:
    """A file with checked names; raises InvalidRequest."""
    _check(repository, revision)
    segments = path.split("/")
    if not all(segments) or {".", ".."} & set(segments) or not path.isprintable() or len(path) > 400:
        raise InvalidRequest(f"{path[:200]!r} is no path of a file in a repository.")
    return HubFile(hub=hub, repository=repository, revision=revision, path=path)


def _check(repository: str, revision: str | None) -> None:
    names = repository.split("/")
    if len(names) != 2 or not all(map(_NAME.fullmatch, names)):
        raise _no_reference([repository])
    if revision is not None and (not revision.isprintable() or not revision or ".." in revision or len(revision) > 200):
        raise InvalidRequest(f"{revision[:200]!r} is no revision of a repository.")


def _no_reference(segments: Sequence[str]) -> InvalidRequest:
    return InvalidRequest(
        f"{'/'.join(segments)[:200]!r} names no model: give the address of a GGUF file, owner/repo with a file or "
        ":quant, or name:tag of Ollama's library."
    )


_READERS: Mapping[str, Callable[[Sequence[str]], Reference]] = {
    "huggingface.co": _hugging_face,
    "www.huggingface.co": _hugging_face,
    "hf.co": _hugging_face,
    "modelscope.cn": _modelscope,
    "www.modelscope.cn": _modelscope,
    "modelscope.ai": _modelscope,
    "www.modelscope.ai": _modelscope,
    "ollama.com": _ollama,
    "ollama.ai": _ollama,
    "registry.ollama.ai": _ollama,
}
"""How the rest of a name is read behind each host's name."""
