"""Models of Ollama's registry: a manifest names the blob that is the GGUF file."""

import re
from collections.abc import Mapping

import httpx2

from service.core.problems import UnknownModel
from service.remote.documents import fetch_json, list_of
from service.remote.hubs import ModelHosts
from service.remote.references import OllamaModel
from service.remote.session import HostSession

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
# Source: ollama, server/images.go and manifest/layer.go; the projector of a model is a layer of its own
_MODEL_LAYER = "application/vnd.ollama.image.model"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def ollama_blob_url(session: HostSession, hosts: ModelHosts, model: OllamaModel) -> httpx2.URL:
    """Address of the GGUF file of a model; raises PlanProblem, UnknownModel where it has none."""
    url = hosts.ollama_path(f"{model.repository}/manifests/{model.tag}")
    manifest, _ = fetch_json(session, url, accept=_MANIFEST)
    for layer in list_of(manifest, "layers", url.host):
        if isinstance(layer, Mapping) and layer.get("mediaType") == _MODEL_LAYER:
            digest = layer.get("digest")
            if isinstance(digest, str) and _DIGEST.fullmatch(digest):
                return hosts.ollama_path(f"{model.repository}/blobs/{digest}")
    raise UnknownModel(f"{model.repository}:{model.tag} of {url.host} has no GGUF file.")
