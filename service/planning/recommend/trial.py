"""One rig tried: every model planned on it, until one does not do what was asked."""

from collections.abc import Iterable
from dataclasses import dataclass

from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.core.problems import Contradiction, InvalidRequest, Unsupported
from service.planning.compare.table import Plans
from service.planning.recommend.builds import Build
from service.planning.recommend.needs import Needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A rig with its plans, by model as asked; missing: what the last of them lacks, nothing where all do."""

    build: Build
    questions: tuple[PlanRequest, ...] = ()
    plans: tuple[Plan, ...] = ()
    missing: tuple[str, ...] = ()
    refused: bool = False

    @property
    def does(self) -> bool:
        """Whether it does what was asked."""
        return not self.missing

    @property
    def fits(self) -> bool:
        """Whether all that was planned fits as asked, however fast it is."""
        return bool(self.plans) and not self.refused and "does not fit on the cards" not in self.missing

    @property
    def on_cards(self) -> bool:
        """Whether all that was planned lies on the cards: what the host holds is fewer bytes with more cards."""
        return bool(self.plans) and all(plan.fits for plan in self.plans)

    @property
    def decode_tokens_per_s(self) -> float | None:
        """Of each stream, with the slowest model."""
        return _least(plan.speed.decode_tokens_per_s.mid if plan.speed else None for plan in self.plans)

    @property
    def aggregate_decode_tokens_per_s(self) -> float | None:
        """Of all streams, with the slowest model."""
        return _least(plan.speed.aggregate_decode_tokens_per_s.mid if plan.speed else None for plan in self.plans)

    @property
    def per_w(self) -> float | None:
        """Tokens per second of all streams for each watt of board power."""
        return _ratio(self.aggregate_decode_tokens_per_s, self.build.power_w)

    @property
    def per_price(self) -> float | None:
        """Tokens per second of all streams for each unit of price."""
        return _ratio(self.aggregate_decode_tokens_per_s, self.build.price)


def try_build(build: Build, needs: Needs, planner: Plans) -> Trial:
    """Plan the models on a rig."""
    questions: list[PlanRequest] = []
    plans: list[Plan] = []
    for question in needs.questions:
        asked = question.model_copy(update={"rig": question.rig.model_copy(update={"gpus": build.names})})
        try:
            plan = planner.plan(asked)
        except (Unsupported, Contradiction, InvalidRequest) as refused:
            return Trial(build=build, missing=(refused.detail,), refused=True)
        questions.append(asked)
        plans.append(plan)
        if missing := tuple(needs.missing(plan)):
            return Trial(build=build, questions=tuple(questions), plans=tuple(plans), missing=missing)
    return Trial(build=build, questions=tuple(questions), plans=tuple(plans))


def _least(values: Iterable[float | None]) -> float | None:
    known = list(values)
    found = [value for value in known if value is not None]
    return min(found) if known and len(found) == len(known) else None


def _ratio(value: float | None, by: float | None) -> float | None:
    return None if value is None or not by else value / by
