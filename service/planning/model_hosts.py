"""Models of other hosts, as the settings allow them to be fetched."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING

from service.core.checkpoints import Checkpoint
from service.core.problems import InvalidRequest, PlanProblem, Unsupported
from service.core.types import Model

if TYPE_CHECKING:
    from service.remote.fetching import Found
    from service.remote.gguf_files import Progress
    from service.remote.hubs import ModelHosts
    from service.remote.references import Reference
    from service.settings import Settings

REMEMBERED_MODELS = 64
REMEMBERED_S = 600.0
_PATIENCE_S = 1.0
_AUTHORIZATION = re.compile(r"[!-~][ -~]{0,4095}")


class RemoteModels:
    """Fetches models, a few at once; those that plans ask for are remembered for ten minutes.

    Safe to share between threads.
    """

    def __init__(self, settings: "Settings") -> None:
        self._settings = settings
        self._slots = BoundedSemaphore(settings.max_model_fetches)
        self._remembered: dict[str, tuple[float, Model | Checkpoint]] = {}
        self._remembering = Lock()

    def find(
        self,
        reference: "Reference",
        *,
        authorization: str | None = None,
        progress: "Progress | None" = None,
    ) -> "Found":
        """What a reference leads to: a model, a checkpoint or a list of files; raises PlanProblem."""
        from service.remote.fetching import fetch, no_progress  # noqa: PLC0415 - most plans need no network

        if authorization is not None and not _AUTHORIZATION.fullmatch(authorization):
            raise InvalidRequest("The Authorization is no line of visible characters.")
        with self.slot():
            return fetch(
                _hosts(self._settings), reference, authorization=authorization, progress=progress or no_progress
            )

    def model(self, url: str) -> Model:
        """The GGUF model at an address, remembered; raises PlanProblem, also for what is no single model."""
        content = self.content(url)
        if isinstance(content, Checkpoint):
            raise Unsupported(
                f"{url} is a checkpoint, which llama.cpp does not load: name a GGUF file, or ask for engine.name vllm.",
                fields=("model.url",),
            )
        return content

    def content(self, url: str) -> Model | Checkpoint:
        """The model or checkpoint at an address, remembered; raises PlanProblem, also for what is neither."""
        with self._remembering:
            fetched_s, content = self._remembered.get(url, (0.0, None))
        if content is not None and time.monotonic() < fetched_s + REMEMBERED_S:
            return content
        from service.remote.references import read_reference  # noqa: PLC0415

        content = _single_content(self.find(read_reference(url)), url)
        with self._remembering:
            while len(self._remembered) >= REMEMBERED_MODELS:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[url] = (time.monotonic(), content)
        return content

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Room to read one model; raises TooManyReads where there is none for a second."""
        if not self._slots.acquire(timeout=_PATIENCE_S):
            raise TooManyReads(
                f"{self._settings.max_model_fetches} models are being read already: try again in a moment."
            )
        try:
            yield
        finally:
            self._slots.release()


class TooManyReads(PlanProblem):
    """More models at once than this process reads."""

    slug = "rate-limited"


def _single_content(found: "Found", url: str) -> Model | Checkpoint:
    from service.remote.listing import Listing  # noqa: PLC0415

    if isinstance(found, Listing):
        files = [model.file for model in found.models]
        raise InvalidRequest(
            f"{url} is a repository; name one of its files: {', '.join(files[:20]) or 'it has no GGUF file'}.",
            suggestions=files[:20],
            fields=("model.url",),
        )
    return found.content


def _hosts(settings: "Settings") -> "ModelHosts":
    from service.remote.hosts import host_rules  # noqa: PLC0415
    from service.remote.hubs import ModelHosts  # noqa: PLC0415
    from service.remote.session import Access  # noqa: PLC0415

    return ModelHosts(
        access=Access(
            rules=host_rules(settings.model_hosts, settings.private_model_hosts), duration_s=settings.model_fetch_s
        ),
        hub_urls={"huggingface": settings.hugging_face_url, "modelscope": settings.modelscope_url},
        ollama_url=settings.ollama_url,
    )
