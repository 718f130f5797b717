"""What a key may do."""

from typing import Final, Literal, TypeAlias, get_args

Scope: TypeAlias = Literal["read", "cards", "models", "measurements", "audit"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
MEANINGS: Final[dict[Scope, str]] = {
    "read": "ask, list and show, where reading needs a key; every valid key may",
    "cards": "add, change and remove cards",
    "models": "bring models in, name, rename and remove them",
    "measurements": "bring measurements in, and withdraw them",
    "audit": "see who changed what",
}
