"""Names as the catalogues know them: what a card or a model that was written down is called there."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from service.catalog.gpus import GpuCatalog
from service.catalog.model_names import quant_key
from service.catalog.models import ModelCatalog
from service.core.problems import PlanProblem, UnknownModel

_PLURAL = re.compile(r"(?<=\w)['\N{RIGHT SINGLE QUOTATION MARK}]?s$", re.IGNORECASE)
# what quants are called beside the names of their files
_SAME_QUANT: Final = {"fp16": "F16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Resolves names, never by likeness: what is not clear is refused with suggestions."""

    gpus: GpuCatalog
    models: ModelCatalog

    def card(self, name: str) -> str:
        """What a request calls a card; raises UnknownGpu."""
        named = self.gpus.names.resolve(name)
        # a size of memory that was said stays said
        return named.record.slug if named.memory_bytes is None else name

    def model(self, name: str, quant: str | None = None) -> str:
        """What a request calls a model; a quant may be written short where one alone starts so.

        Raises UnknownModel.
        """
        if quant is None:
            row = self.models.resolve(name).row
            if quant_key(row.quant) in quant_key(name):
                return self.models.reference_to(row)
            return row.name if _gives(lambda: self.models.resolve(row.name).row.id == row.id) else row.id
        quant = _SAME_QUANT.get(quant.lower(), quant)
        try:
            return self.models.reference_to(self.models.resolve(f"{name}:{quant}").row)
        except UnknownModel as refused:
            starting = [
                reference
                for reference in refused.suggestions
                if quant_key(reference.rpartition(":")[2]).startswith(quant_key(quant))
            ]
            if len(starting) == 1:
                return starting[0]
            raise

    def is_card(self, name: str) -> bool:
        """Whether this names one card."""
        return _gives(lambda: bool(self.card(name)))

    def card_or_none(self, said: str) -> str | None:
        """The card that a name or its plural means, None where it is unclear: "4080s" may be the 4080 Super."""
        if self.is_card(said):
            return self.card(said)
        singular = _PLURAL.sub("", said)
        is_clear = singular != said and self.is_card(singular) and not self.is_card(f"{singular} super")
        return self.card(singular) if is_clear else None

    def is_model(self, name: str, quant: str | None = None) -> bool:
        """Whether this names one model."""
        return _gives(lambda: bool(self.model(name, quant)))


def _gives(ask: Callable[[], bool]) -> bool:
    try:
        return ask()
    except PlanProblem:
        return False
