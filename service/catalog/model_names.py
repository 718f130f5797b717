"""Model references as people write them, told apart into name and quant, and names compared by their words."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeAlias

import tomli

from service.builtin import builtin_folder

Words: TypeAlias = tuple[str, ...]

_WORD = re.compile(r"[^\W\d_]+|\d+")
_SEPARATORS = re.compile(r"[\W_]+")
# "…/Llama-3.3-70B-Instruct-Q4_K_M-00001-of-00002.gguf" as file names and repositories put it
_FOLDER = re.compile(r".*/")
_FILE_ENDING = re.compile(r"(?:-\d{5}-of-\d{5})?\.gguf", re.IGNORECASE)
_TRAILING_QUANT = re.compile(
    r"(?P<name>.+?)[\s._:-]+(?P<quant>(?:I?Q|TQ)\d\w*|B?F16|F32|MXFP4\w*|NVFP4)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReference:
    """What a reference names; quant None where it was left open."""

    name: str
    quant: str | None


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What the words of model names do (model_db/names.toml)."""

    ignored: frozenset[str]
    aliases: Mapping[str, str]

    @cached_property
    def names_by_alias(self) -> Mapping[Words, str]:
        """Aliases by their words."""
        return {self.telling(alias): name for alias, name in self.aliases.items()}

    def telling(self, name: str) -> Words:
        """The words of `name` that tell models apart."""
        return tuple(word for word in words(name) if word not in self.ignored)


@cache
def vocabulary() -> Vocabulary:
    """Read model_db/names.toml, once."""
    table = tomli.loads((builtin_folder("model_db") / "names.toml").read_text("utf-8"))
    return Vocabulary(ignored=frozenset(table["ignored"]), aliases=table["aliases"])


def words(name: str) -> Words:
    """Letters and digits of `name` in runs, without case: "Qwen2.5-7B" is qwen, 2, 5, 7, b."""
    return tuple(_WORD.findall(name.casefold()))


def quant_key(quant: str) -> str:
    """A quant without case and separators: "q4-k-m" is "Q4KM"."""
    return _SEPARATORS.sub("", quant).upper()


def readings(reference: str) -> Iterable[ModelReference]:
    """The ways to read a reference, the most literal first."""
    plain = _FILE_ENDING.sub("", _FOLDER.sub("", reference.strip()))
    name, colon, quant = plain.rpartition(":")
    if colon:
        yield ModelReference(name=name, quant=quant)
        return
    yield ModelReference(name=plain, quant=None)
    if trailing := _TRAILING_QUANT.fullmatch(plain):
        yield ModelReference(name=trailing["name"], quant=trailing["quant"])
