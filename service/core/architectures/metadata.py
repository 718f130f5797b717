"""Typed, bounded reading of a model's metadata by the suffix of an architecture's keys."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.core.problems import UnreadableModel
from service.core.types import LongArray, MetadataScalar, MetadataValue

MAX_LAYERS = 512
MAX_COUNT = 2**32 - 1


def unreadable(key: str, reason: str) -> UnreadableModel:
    """The problem of a key whose value makes no sense."""
    return UnreadableModel(
        f"the model's metadata {key} {reason}: check that the file is complete and was converted for llama.cpp",
        fields=("model",),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Metadata of one model; keys are given without their architecture prefix.

    Every reader raises `UnreadableModel` for a value of the wrong type or outside what the field can hold, and for a
    missing key without default.

    Source: llama_model_loader::get_key, get_arr, get_key_or_arr, src/llama-model-loader.cpp:345-523
    (llama.cpp in llama-cpp-python 0.3.36).
    """

    architecture: str
    values: Mapping[str, MetadataValue]

    def key(self, suffix: str) -> str:
        """The full key of `suffix`."""
        return f"{self.architecture}.{suffix}"

    def has(self, suffix: str) -> bool:
        """Whether the file states the key."""
        return self.key(suffix) in self.values

    def count(self, suffix: str, default: int | None = None) -> int:
        """A whole number ≥ 0; required where there is no default."""
        value = self.values.get(self.key(suffix))
        if value is None:
            if default is None:
                raise unreadable(self.key(suffix), "is missing")
            return default
        return _count(self.key(suffix), value, 0)

    def number(self, suffix: str, default: float) -> float:
        """A finite number."""
        value = self.values.get(self.key(suffix))
        return default if value is None else _finite(self.key(suffix), value)

    def flag(self, suffix: str, *, default: bool) -> bool:
        """A boolean."""
        value = self.values.get(self.key(suffix))
        if value is None:
            return default
        if not isinstance(value, bool):
            raise unreadable(self.key(suffix), f"is not true or false but {value!r}")
        return value

    def array(self, suffix: str, lowest: int = 0) -> tuple[int, ...] | None:
        """An array of at most MAX_LAYERS whole numbers ≥ `lowest` or flags; None where missing or a scalar."""
        value = self.values.get(self.key(suffix))
        if value is None or not isinstance(value, tuple | LongArray):
            return None
        if isinstance(value, LongArray) or len(value) > MAX_LAYERS:
            raise unreadable(self.key(suffix), f"has more than {MAX_LAYERS} entries")
        return tuple(
            int(entry) if isinstance(entry, bool) else _count(self.key(suffix), entry, lowest) for entry in value
        )

    def per_layer(self, suffix: str, n_layers: int, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """One whole number per layer, from an array of exactly `n_layers` entries or one value for all."""
        if not self.has(suffix):
            if default is None:
                raise unreadable(self.key(suffix), "is missing")
            return default
        entries = self.array(suffix)
        if entries is None:
            value = self.values[self.key(suffix)]
            return (int(value) if isinstance(value, bool) else self.count(suffix),) * n_layers
        if len(entries) != n_layers:
            raise unreadable(self.key(suffix), f"has {len(entries)} entries where {n_layers} are expected")
        return entries

    def numbers_per_layer(self, suffix: str, n_layers: int) -> tuple[float, ...]:
        """One finite number per layer, from an array of exactly `n_layers` or one value for all; none where missing."""
        value = self.values.get(self.key(suffix))
        if value is None:
            return ()
        if not isinstance(value, tuple):
            return (self.number(suffix, 0.0),) * n_layers
        if len(value) != n_layers:
            raise unreadable(self.key(suffix), f"has {len(value)} entries where {n_layers} are expected")
        return tuple(_finite(self.key(suffix), entry) for entry in value)


def _finite(key: str, value: MetadataValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < float("inf"):
        raise unreadable(key, f"is not a number but {value!r:.40}")
    return float(value)


def _count(key: str, value: MetadataValue | MetadataScalar, lowest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise unreadable(key, f"is not a whole number but {value!r:.40}")
    if not lowest <= value <= MAX_COUNT:
        raise unreadable(key, f"is {value}, outside {lowest} to {MAX_COUNT}")
    return value
