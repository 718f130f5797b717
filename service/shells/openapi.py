"""The OpenAPI document as the file that is committed."""

import yaml

from service.app import create_app
from service.settings import Settings

HEADER = "# Written by `rigfit openapi`; do not edit.\n"


def openapi_yaml() -> str:
    """The document as YAML, the same for every installation."""
    document = create_app(Settings()).openapi()
    return HEADER + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
