"""The thin shells around planning: what they do is translate."""
