"""Questions and writes that need a database which does not answer."""

from service.contract.plan import Plan, PlanWarning
from service.core.problems import PlanProblem
from service.planning.shared_warnings import gravest_first


class DatabaseUnavailable(PlanProblem):
    """A database that is needed and does not answer."""

    slug = "not-ready"


def unknown_for_now(refused: PlanProblem) -> DatabaseUnavailable:
    """A name that may be in the database that does not answer: whether it is unknown cannot be said now."""
    return DatabaseUnavailable(
        f"{refused.detail} The database does not answer, so a name that was added to it may not be known now: "
        "ask again in a while.",
        suggestions=refused.suggestions,
        fields=refused.fields,
    )


def without_database(plan: Plan) -> Plan:
    """A plan of built-in data alone that says so."""
    warning = PlanWarning(
        code="database-away",
        severity="warning",
        message="The database has not answered since this process started: this is planned with the cards and models "
        "that ship with the service, without cards, models and measurements of your own.",
        numbers={},
    )
    return plan.model_copy(update={"warnings": gravest_first([*plan.warnings, warning])})
