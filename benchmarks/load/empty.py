"""What the service is held against: endpoints of FastAPI that do nothing but read and write bodies of the same size."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response

from service.settings import settings
from service.shells.logs import configure_logs
from service.shells.serving.patience import Patience

ANSWER_FILE = "RIGFIT_BENCHMARK_ANSWER"
FACTORY = f"{__name__}:empty_application"


@cache
def _answer() -> bytes:
    """A plan as the service wrote it."""
    return Path(os.environ[ANSWER_FILE]).read_bytes()


def empty_application() -> FastAPI:
    """Two endpoints that read a question as JSON: one sends bytes that lie ready, one writes them as FastAPI does."""
    chosen = settings()
    configure_logs(chosen)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, object]]:
        yield {"patience": Patience.of(chosen)}

    app = FastAPI(lifespan=lifespan)
    decoded: dict[str, Any] = json.loads(_answer())

    @app.post("/bytes")
    async def _bytes(question: dict[str, Any]) -> Response:
        assert question
        return Response(_answer(), media_type="application/json")

    @app.post("/object")
    async def _object(question: dict[str, Any]) -> dict[str, Any]:
        assert question
        return decoded

    return app
