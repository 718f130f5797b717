"""Keys: what they look like, and what is kept of them."""

import hashlib

import pytest

from service.planning.access.key_text import new_key, read_key


def test_keys_are_new_and_long() -> None:
    """Each is another, and its secret has 256 bits."""
    made = {new_key() for _ in range(200)}
    assert len(made) == 200
    assert all(len(key.rpartition("_")[2]) >= 43 or len(key) == 60 for key in made)


def test_a_key_is_read_as_its_id_and_the_digest_of_its_secret() -> None:
    """Only the secret is digested, and nothing of it is left in what is read."""
    text = f"rgf_0123456789ab_{'s' * 43}"
    shown = read_key(text)
    assert shown is not None
    assert (shown.id, shown.digest) == ("0123456789ab", hashlib.sha256(b"s" * 43).hexdigest())
    assert "sss" not in repr(shown)


@pytest.mark.parametrize(
    "text",
    ["", "rgf_", f"rgf_0123456789ab_{'s' * 42}", f"rgf_0123456789ab_{'s' * 44}", f" rgf_0123456789ab_{'s' * 43}",
     f"rgf_0123456789AB_{'s' * 43}", f"rgf_0123456789ab_{'é' * 43}", f"rgf_0123456789ab_{'s' * 43}\n"],
)  # fmt: skip
def test_what_is_no_key(text: str) -> None:
    """Nothing is read into text of another form."""
    assert read_key(text) is None
