"""What can go wrong with another host, as problems that say what to do."""

from typing import ClassVar

from service.core.problems import PlanProblem, UnreadableModel


class ForbiddenHost(PlanProblem):
    """An address that models are not fetched from."""

    slug = "forbidden-host"


class ModelHostUnavailable(PlanProblem):
    """A host that cannot be reached, or fails."""

    slug = "model-host-unavailable"


class ModelHostTimeout(PlanProblem):
    """A host that did not answer in the time there is."""

    slug = "model-host-timeout"


class Unauthorized(PlanProblem):
    """A host that wants a credential, or another one."""

    slug = "unauthorized"


class UnreadableRemoteModel(UnreadableModel):
    """A file of another host that is no model, or that the host does not serve as it says."""

    status: ClassVar[int | None] = 502
