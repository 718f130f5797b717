"""The models among the files of a repository, split ones as one, and the one that a quant means."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.core.problems import InvalidRequest, UnknownModel
from service.gguf.splits import part_names
from service.remote.documents import fetch_json
from service.remote.hosts import parse_url
from service.remote.hubs import HUBS, HubEntry, ModelHosts
from service.remote.problems import ModelHostUnavailable
from service.remote.references import HubRepository
from service.remote.session import HostSession

MOST_PAGES = 20
CONFIG = "config.json"
_NEXT_PAGE = re.compile(r'<([^>]+)>;\s*rel="next"')
# Source: gguf_filename_is_model, common/download.cpp:635-653 (llama.cpp in llama-cpp-python 0.3.36)
_COMPANION = re.compile(r"mmproj|imatrix|mtp-|eagle3-|dflash-|dspark-")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """A GGUF file, or all parts of a split one under the name of the first; missing: parts that are not there."""

    file: str
    size_bytes: int
    parts: int = 1
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a repository offers: GGUF models by name, and config.json where it holds a checkpoint of its own."""

    repository: HubRepository
    models: tuple[ListedModel, ...]


def list_repository(session: HostSession, hosts: ModelHosts, repository: HubRepository) -> Listing:
    """Ask a hub for the files of a repository; raises PlanProblem."""
    hub = HUBS[repository.hub]
    url = hosts.list_url(repository.hub, repository.repository, repository.revision)
    entries: list[HubEntry] = []
    for _ in range(MOST_PAGES):
        document, headers = fetch_json(session, url)
        entries += hub.read_list(document, url.host)
        following = _NEXT_PAGE.search(headers.get("link", ""))
        if following is None:
            return Listing(repository=repository, models=tuple(listed_models(entries)))
        url = url.join(parse_url(following[1]))
    raise ModelHostUnavailable(f"{repository.repository} has more files than {MOST_PAGES} pages list: name one.")


def listed_models(entries: Iterable[HubEntry]) -> Sequence[ListedModel]:
    """GGUF files by name, the parts of each split one together, and a checkpoint's configuration."""
    sizes = {entry.path: entry.size_bytes for entry in entries}
    models: dict[str, ListedModel] = {}
    listed: set[str] = set()
    for path in sorted(sizes):
        if path.endswith(".gguf") and path not in listed:
            model = _listed_model(path, sizes)
            listed.update(parts_of(path))
            models[model.file] = model
    weights = [path for path in sizes if path.endswith(".safetensors") and "/" not in path]
    if CONFIG in sizes and weights:
        models[CONFIG] = ListedModel(file=CONFIG, size_bytes=sum(sizes[path] for path in weights), parts=len(weights))
    return list(models.values())


def _listed_model(path: str, sizes: Mapping[str, int]) -> ListedModel:
    parts = parts_of(path)
    return ListedModel(
        file=parts[0],
        size_bytes=sum(sizes.get(part, 0) for part in parts),
        parts=len(parts),
        missing=tuple(part for part in parts if part not in sizes),
    )


def parts_of(path: str) -> tuple[str, ...]:
    """Paths of all parts of the split model that `path` belongs to, else the path alone."""
    folder, slash, name = path.rpartition("/")
    return tuple(f"{folder}{slash}{part}" for part in part_names(name))


def choose(listing: Listing, quant: str) -> ListedModel:
    """The one model that `quant` means, as it stands in file names.

    Raises UnknownModel for none and InvalidRequest for several, with the files that there are.
    Source: find_best_model, common/download.cpp:655-693 (llama.cpp in llama-cpp-python 0.3.36), which takes the first.
    """
    models = [model for model in listing.models if _is_model(model.file)]
    pattern = re.compile(rf"(?<![A-Za-z0-9]){re.escape(quant)}[.-]", re.IGNORECASE)
    found = [model for model in models if pattern.search(model.file)]
    exact = [model for model in found if not re.search(rf"UD-{re.escape(quant)}[.-]", model.file, re.IGNORECASE)]
    found = exact if len(exact) == 1 else found
    name = listing.repository.repository
    if not found:
        files = [model.file for model in models]
        raise UnknownModel(
            f"{name} has no GGUF file of quant {quant!r}; it has {', '.join(files[:20]) or 'none at all'}.",
            suggestions=files[:20],
        )
    if len(found) > 1:
        files = [model.file for model in found]
        raise InvalidRequest(f"{quant!r} is {' or '.join(files[:5])} of {name}: name the file.", suggestions=files)
    return found[0]


def _is_model(path: str) -> bool:
    return path.endswith(".gguf") and _COMPANION.search(path.rpartition("/")[2]) is None
