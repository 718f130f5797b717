"""Numbers as requests may state them: strict, finite, bounded, with their unit in the name."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field

# Refuses what the contract does not name, so that a misspelt field is never silently ignored.
REQUEST = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())
ANSWER = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())

# llama.cpp and vLLM keep token counts in 32-bit signed integers
LARGEST_TOKENS = 2**31 - 1
# one exbibyte: beyond any machine, within a JSON number that every program reads
LARGEST_BYTES = 2**60


def _whole(value: object) -> object:
    """4096.0 is the integer 4096 in JSON; true and "4096" are none."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def no_truth(value: object) -> object:
    """Pass on what is not true or false, which Python takes for 1 and 0; raises ValueError."""
    if isinstance(value, bool):
        raise ValueError("should be a number")  # noqa: TRY004 - pydantic makes findings of this kind alone
    return value


Whole: TypeAlias = Annotated[int, Field(strict=True), BeforeValidator(_whole)]
Tokens: TypeAlias = Annotated[Whole, Field(ge=1, le=LARGEST_TOKENS)]
TokensFromZero: TypeAlias = Annotated[Whole, Field(ge=0, le=LARGEST_TOKENS)]
Bytes: TypeAlias = Annotated[Whole, Field(ge=0, le=LARGEST_BYTES)]
# no machine has less of anything than a billionth, and what is not much smaller can be divided by
Rate: TypeAlias = Annotated[float, Field(strict=True, ge=1e-9, le=1e24)]
Fraction: TypeAlias = Annotated[float, Field(strict=True, ge=1e-6, le=1)]
Flag: TypeAlias = Annotated[bool, Field(strict=True)]
Text: TypeAlias = Annotated[str, Field(strict=True, min_length=1, max_length=400)]
# signed addresses of storage are long
Url: TypeAlias = Annotated[str, Field(strict=True, min_length=1, max_length=4000)]
