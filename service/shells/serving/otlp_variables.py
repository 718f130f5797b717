"""OpenTelemetry's variables, as far as they ask for what is not there: passed over they would lose spans in silence."""

import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from service.core.problems import Unsupported

# Source: OpenTelemetry specification 1.52, "Environment Variable Specification" and "OpenTelemetry Protocol Exporter"
_ONLY: Final[Mapping[str, str]] = {
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
}
_ADDRESSES: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def check_variables(environment: Mapping[str, str] = os.environ) -> None:
    """Raise Unsupported for another exporter or protocol than OTLP over HTTP, and for an address that is none."""
    for name, value in _ONLY.items():
        if environment.get(name, "").strip() not in ("", value):
            raise Unsupported(f"{name} is {environment[name]}: with RIGFIT_TRACES spans are exported as {value} alone.")
    for name in _ADDRESSES:
        address = environment.get(name, "").strip()
        if address and not _is_address(address):
            # not shown: it may hold a password
            raise Unsupported(f"{name} is no address: it begins with http:// or https:// and names a host.")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
