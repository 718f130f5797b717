"""What a request costs of a caller's rate, in units of one explicit plan.

Source: processor time as `python -m benchmarks.request_costs` measured it on 2026-11-30; what may be a long list costs
a round number.
"""

from collections.abc import Mapping
from typing import Final

FREE: Final = frozenset({"healthz", "metrics", "readyz", "slack", "static"})
"""What balancers and collectors ask, files, and Slack, which sends for a whole workspace and signs it."""
COSTS: Final[Mapping[tuple[str, str], int]] = {
    ("GET", "/answer/chart"): 2,
    ("GET", "/plan/template.xlsx"): 5,
    ("POST", "/compare"): 10,
    ("POST", "/measurements"): 10,
    ("POST", "/models"): 20,
    ("POST", "/plan/batch"): 50,
    ("POST", "/plan/curves"): 10,
    ("POST", "/recommend"): 10,
    ("POST", "/sign-in"): 10,
}
_CURVES_END: Final = "/curves"


def cost_of(method: str, path: str) -> int:
    """Units that a request takes; 0 for what is never refused."""
    cost = COSTS.get((method, path))
    if cost is not None:
        return cost
    if path.split("/", 2)[1:2] and path.split("/", 2)[1] in FREE:
        return 0
    return COSTS["POST", "/plan/curves"] if path.endswith(_CURVES_END) else 1
