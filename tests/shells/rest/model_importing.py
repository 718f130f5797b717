"""The application beside a model host of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from service.settings import Settings
from tests.remote.model_host import ModelHost
from tests.shells.rest.local_client import local_client


@contextmanager
def importing_client(database_url: str, host: ModelHost, **more: Any) -> Iterator[TestClient]:
    """A client of an application that may fetch from `host` alone, as every hub's mirror."""
    settings = Settings(
        database_url=database_url,
        model_hosts=(),
        private_model_hosts=(host.url,),
        hugging_face_url=f"{host.url}/hf",
        modelscope_url=f"{host.url}/ms",
        ollama_url=f"{host.url}/ollama",
        **more,
    )
    with local_client(settings) as client:
        yield client
