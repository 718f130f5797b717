"""Checkpoints of other hosts: config.json, and the headers of the safetensors files beside it."""

import re
from collections.abc import Mapping, Sequence

import httpx2

from service.checkpoints.documents import checkpoint_of
from service.checkpoints.safetensors import read_safetensors_header
from service.core.checkpoints import Checkpoint, CheckpointTensor
from service.core.problems import UnknownModel, UnreadableModel
from service.core.units import MIB
from service.gguf.limits import MAX_PARTS
from service.remote.documents import fetch_json
from service.remote.gguf_files import FileProgress, Progress, file_name
from service.remote.hubs import sibling
from service.remote.problems import UnreadableRemoteModel
from service.remote.ranges import RemoteFile
from service.remote.session import HostSession

# Source: transformers, utils/__init__.py (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME)
_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_LARGEST_CONFIG_BYTES = 1 * MIB
_LARGEST_INDEX_BYTES = 16 * MIB
_SHARD = re.compile(r"[\w.-]{1,200}\.safetensors", re.ASCII)


def fetch_checkpoint(session: HostSession, config_url: httpx2.URL, progress: Progress) -> Checkpoint:
    """The checkpoint whose config.json lies at `config_url`, without tensors where no safetensors lie beside it.

    Raises PlanProblem; UnreadableRemoteModel where index and files contradict each other.
    """
    config, _ = fetch_json(session, config_url, most_bytes=_LARGEST_CONFIG_BYTES)
    if not isinstance(config, dict):
        raise UnreadableRemoteModel(f"{config_url.host}{config_url.path} is no JSON object.")
    expected = _tensor_files(session, config_url)
    try:
        if expected is None:
            return checkpoint_of(config, _tensors_of_single(session, config_url, progress))
        return checkpoint_of(config, _tensors_of_shards(session, config_url, expected, progress))
    except UnreadableRemoteModel:
        raise
    except UnreadableModel as refused:
        raise UnreadableRemoteModel(refused.detail) from None


def _tensor_files(session: HostSession, config_url: httpx2.URL) -> Mapping[str, str] | None:
    """File of every tensor, as the index says; None where there is no index."""
    url = sibling(config_url, _INDEX)
    try:
        index, _ = fetch_json(session, url, most_bytes=_LARGEST_INDEX_BYTES)
    except UnknownModel:
        return None
    files = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(files, dict) or not all(map(_is_shard, files.values())):
        raise UnreadableRemoteModel(f"{url.host}{url.path} has no weight_map of safetensors files.")
    if len(set(files.values())) > MAX_PARTS:
        raise UnreadableRemoteModel(f"{url.host}{url.path} names more than {MAX_PARTS} files.")
    return files


def _is_shard(name: object) -> bool:
    return isinstance(name, str) and _SHARD.fullmatch(name) is not None


def _tensors_of_single(session: HostSession, config_url: httpx2.URL, progress: Progress) -> Sequence[CheckpointTensor]:
    try:
        return _fetch_tensors(session, sibling(config_url, _SINGLE), progress)
    except UnknownModel:
        return ()


def _tensors_of_shards(
    session: HostSession, config_url: httpx2.URL, expected: Mapping[str, str], progress: Progress
) -> Sequence[CheckpointTensor]:
    tensors: list[CheckpointTensor] = []
    missing: list[str] = []
    for shard in sorted(set(expected.values())):
        try:
            tensors += _fetch_tensors(session, sibling(config_url, shard), progress)
        except UnknownModel:
            missing.append(shard)
    if missing:
        raise UnreadableRemoteModel(f"Files of the checkpoint are missing: {', '.join(missing[:8])}.")
    absent = expected.keys() - {tensor.name for tensor in tensors}
    if absent:
        raise UnreadableRemoteModel(f"{len(absent)} tensors of the index are in no file, such as {min(absent)[:80]!r}.")
    return tensors


def _fetch_tensors(session: HostSession, url: httpx2.URL, progress: Progress) -> Sequence[CheckpointTensor]:
    def tell(read_bytes: int, file_bytes: int | None) -> None:
        progress(FileProgress(file=file_name(url), read_bytes=read_bytes, file_bytes=file_bytes))

    with RemoteFile(session, url, tell) as file:
        try:
            return read_safetensors_header(file, file_bytes=file.size_bytes)
        except UnreadableRemoteModel:
            raise
        except UnreadableModel as refused:
            raise UnreadableRemoteModel(f"{file_name(url)}: {refused.detail}") from None


def is_config(url: httpx2.URL) -> bool:
    """Whether an address is that of a checkpoint's configuration."""
    return file_name(url) == "config.json"
