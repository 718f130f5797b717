"""What the core refuses, as exceptions that carry their problem slug and the way out."""

from collections.abc import Sequence
from typing import ClassVar


class PlanProblem(Exception):
    """A question that cannot be answered; shells render it as RFC 9457.

    `slug` names the problem type of the contract, `detail` says what is wrong and what to do,
    `suggestions` lists close valid values, `fields` the request fields concerned, `status` the HTTP status where it
    is not the usual one of the problem type.
    """

    slug = "invalid-request"
    status: ClassVar[int | None] = None

    def __init__(self, detail: str, *, suggestions: Sequence[str] = (), fields: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.suggestions = tuple(suggestions)
        self.fields = tuple(fields)


class InvalidRequest(PlanProblem):
    """A value outside what the field can mean."""


class Contradiction(PlanProblem):
    """Two parts of the request that exclude each other."""

    slug = "contradiction"


class Unsupported(PlanProblem):
    """Something the engine itself would refuse."""

    slug = "unsupported"


class UnknownGpu(PlanProblem):
    """A card that no catalogue entry or alias names exactly."""

    slug = "unknown-gpu"


class UnknownRig(PlanProblem):
    """A rig that is not among those that can be named."""

    slug = "unknown-rig"


class UnknownModel(PlanProblem):
    """A model or quant that is not in the catalogue."""

    slug = "unknown-model"


class UnknownEngine(PlanProblem):
    """An engine without a package here."""

    slug = "unknown-engine"


class UnreadableModel(PlanProblem):
    """A model file whose header cannot be read or makes no sense."""

    slug = "unreadable-model"


class concerning:  # noqa: N801 - used as a statement, `with concerning(field):`
    """Say that what is refused inside is about one field, where rules that know only their own part name another.

    Raises what was raised.
    """

    __slots__ = ("_field",)

    def __init__(self, field: str) -> None:
        self._field = field

    def __enter__(self) -> None:
        """Nothing to begin with."""

    def __exit__(self, kind: object, refused: object, trace: object) -> None:
        """Name the field in a problem that passes."""
        field = self._field
        if isinstance(refused, PlanProblem) and not any(
            f"{named}.".startswith(f"{field}.") for named in refused.fields
        ):
            refused.fields = (field,)
