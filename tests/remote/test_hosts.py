"""Addresses are asked only where the rules name their host."""

import pytest

from service.core.problems import InvalidRequest
from service.remote.hosts import host_rules, parse_url
from service.remote.problems import ForbiddenHost

RULES = host_rules(["huggingface.co", "*.hf.co"], ["http://models.internal:8080"])

REFUSED = {
    "another host": "https://evil.example/model.gguf",
    "plain http": "http://huggingface.co/x.gguf",
    "another port": "https://huggingface.co:8443/x.gguf",
    "ssh port": "https://huggingface.co:22/x.gguf",
    "file": "file:///etc/passwd",
    "ftp": "ftp://huggingface.co/x.gguf",
    "gopher": "gopher://huggingface.co/x.gguf",
    "data": "data:application/octet-stream;base64,R0dVRg==",
    "websocket": "wss://huggingface.co/x.gguf",
    "no scheme": "//huggingface.co/x.gguf",
    "no host": "https:///x.gguf",
    "loopback": "https://127.0.0.1/x.gguf",
    "loopback by name": "https://localhost/x.gguf",
    "loopback, short": "https://127.1/x.gguf",
    "loopback, decimal": "https://2130706433/x.gguf",
    "loopback, hexadecimal": "https://0x7f000001/x.gguf",
    "loopback, octal": "https://0177.0.0.1/x.gguf",
    "loopback, v6": "https://[::1]/x.gguf",
    "loopback, mapped": "https://[::ffff:127.0.0.1]/x.gguf",
    "metadata": "https://169.254.169.254/latest/meta-data/",
    "metadata by name": "https://metadata.google.internal/",
    "private": "https://192.168.0.1/x.gguf",
    "name in front": "https://huggingface.co.evil.example/x.gguf",
    "name behind": "https://evilhuggingface.co/x.gguf",
    "below a name that stands alone": "https://cdn.huggingface.co/x.gguf",
    "name of the wildcard itself": "https://hf.co/x.gguf",
    "wildcard without its dot": "https://evilhf.co/x.gguf",
    "dot at the end": "https://huggingface.co./x.gguf",
    "name as user": "https://huggingface.co@evil.example/x.gguf",
    "name as user and password": "https://huggingface.co:x@evil.example/x.gguf",
    "name in the fragment": "https://evil.example/#@huggingface.co/",
    "name in the path": "https://evil.example/huggingface.co/x.gguf",
    "backslash": "https://evil.example\\@huggingface.co/x.gguf",
    "a Cyrillic letter": "https://huggingfac\N{CYRILLIC SMALL LETTER IE}.co/x.gguf",
    "the private host on another port": "http://models.internal:8081/x.gguf",
    "the private host by https": "https://models.internal:8080/x.gguf",
    "credentials": "https://user:secret@huggingface.co/x.gguf",
    "credentials for the private host": "http://user@models.internal:8080/x.gguf",
    "line break in the host": "https://huggingface.co\r\nx: y/x.gguf",
    "nul in the host": "https://huggingface.co\0.evil.example/x.gguf",
    "percent in the host": "https://huggingface.co%2eevil.example/x.gguf",
}
ALLOWED = [
    "https://huggingface.co/x.gguf",
    "https://HuggingFace.co:443/x.gguf",
    "https://cdn-lfs-us-1.hf.co/x",
    "http://models.internal:8080/x.gguf",
]


@pytest.mark.parametrize("url", REFUSED.values(), ids=REFUSED.keys())
def test_other_hosts_and_tricks_are_refused(url: str) -> None:
    """No spelling of an address leads past the rules."""
    with pytest.raises((ForbiddenHost, InvalidRequest)):
        RULES.check(parse_url(url))


@pytest.mark.parametrize("url", ALLOWED)
def test_named_hosts_are_asked(url: str) -> None:
    """Hosts by https on their usual port, and the operator's own origins as they stand."""
    RULES.check(parse_url(url))
    assert RULES.public


def test_a_refusal_says_what_may_be_asked() -> None:
    """The caller learns which hosts there are, and no credential is repeated."""
    with pytest.raises(ForbiddenHost, match=r"huggingface\.co, \*\.hf\.co"):
        RULES.check(parse_url("https://evil.example/x.gguf"))
    with pytest.raises(InvalidRequest) as refused:
        RULES.check(parse_url("https://user:secret@huggingface.co/x.gguf"))
    assert "secret" not in refused.value.detail


@pytest.mark.parametrize("text", ["models.internal", "ftp://models.internal", "http://", "http://a/path", "http://u@a"])
def test_settings_that_are_no_origin_are_refused(text: str) -> None:
    """An operator's slip stops the process before it serves."""
    with pytest.raises(ValueError, match="is no origin"):
        host_rules([], [text])
