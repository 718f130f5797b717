"""Units and rounding shared by every rule."""

KIB = 1024
MIB = 1024**2
GIB = 1024**3


def pad(value: int, multiple: int) -> int:
    """Round `value` up to a multiple of `multiple`.

    Source: GGML_PAD, ggml/include/ggml.h (ggml 0.25.3), for any positive multiple.
    """
    return -(-value // multiple) * multiple
