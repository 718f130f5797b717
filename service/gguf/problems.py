"""A header that ends too early, told apart because more bytes can mend it."""

from service.core.problems import UnreadableModel


class TruncatedHeader(UnreadableModel):
    """The source ended inside the header; at least `missing_bytes` more are needed to go on."""

    def __init__(self, *, offset_bytes: int, missing_bytes: int, reading: str) -> None:
        super().__init__(
            f"The header ends at byte {offset_bytes:,} while reading {reading}: "
            f"at least {missing_bytes:,} more bytes are needed. Send the whole header."
        )
        self.missing_bytes = missing_bytes
