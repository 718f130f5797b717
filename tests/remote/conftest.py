"""A model host for each test."""

from collections.abc import Iterator

import pytest

from tests.remote.model_host import ModelHost, model_host


@pytest.fixture
def host() -> Iterator[ModelHost]:
    """A real HTTP server of this machine."""
    with model_host() as host:
        yield host
