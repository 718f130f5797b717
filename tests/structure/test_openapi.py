"""The committed OpenAPI document is the one that the service gives."""

from service.shells.openapi import openapi_yaml
from tests.structure.repository import ROOT


def test_committed_document_is_current() -> None:
    """After a change of an endpoint `rigfit openapi > openapi.yaml` was run."""
    assert (ROOT / "openapi.yaml").read_text("utf-8") == openapi_yaml()
