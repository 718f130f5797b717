"""The application, in process, asked by the machine it runs on."""

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.testclient import TestClient

from service.app import create_app
from service.settings import Settings


@contextmanager
def local_client(settings: Settings) -> Iterator[TestClient]:
    """A client of this machine, which may write while there is no key; it gets failures answered as anyone would."""
    app = create_app(settings)
    address = ("127.0.0.1", 50_000)
    with TestClient(app, "http://127.0.0.1:8000", raise_server_exceptions=False, client=address) as client:
        yield client
