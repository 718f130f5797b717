"""Rates that hold for all processes of a database together: each tells the others now and then what it let through."""

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.planning.access.rate import Report, Throttle
from service.planning.access.use import Use
from service.store.database import transaction
from service.store.rate_uses import TakenUse, add_uses, forget_uses, uses_changed

log = structlog.get_logger(__name__)

EXCHANGE_S: Final = 1.0
"""How long processes count by themselves before they tell each other."""
# how long a row may take from its writing until it can be seen
_OVERLAP_S: Final = 2.0
_FORGOTTEN_EVERY_S: Final = 60.0

Reports = Mapping[str, Report]
Learned = Mapping[str, Mapping[str, float]]


class SharedRates:
    """The throttles of one process, by policy, and the rows that they share with those of others.

    Only `exchanged` waits for the database. While that is away each process goes on by itself.
    """

    def __init__(self, database: Engine, throttles: Mapping[str, Throttle]) -> None:
        self._database = database
        self._throttles = throttles
        self._read_at_s: float | None = None
        self._forgot_at_s = time.monotonic()
        self._is_away = False

    def reports(self) -> Reports:
        """What passed here since the last time."""
        return {policy: throttle.report() for policy, throttle in self._throttles.items()}

    def exchanged(self, reports: Reports) -> Learned | None:
        """Tell the others, and give what they told; None where the database does not answer."""
        try:
            learned = self._exchanged(reports)
        except SQLAlchemyError as failure:
            if not self._is_away:
                log.warning("rates are not shared now: each process counts alone", error=str(failure))
            self._is_away = True
            return None
        if self._is_away:
            log.info("rates are shared again")
        self._is_away = False
        return learned

    def settle(self, reports: Reports, learned: Learned | None) -> None:
        """Go on with what was told, or keep for the next time what reached nobody."""
        for policy, throttle in self._throttles.items():
            if learned is None:
                throttle.returned(reports[policy])
            else:
                throttle.learned(reports[policy], learned[policy])

    def _exchanged(self, reports: Reports) -> Learned:
        began_s, learned = time.monotonic(), dict[str, Mapping[str, float]]()
        within = None if self._read_at_s is None else timedelta(seconds=began_s - self._read_at_s + _OVERLAP_S)
        with transaction(self._database) as session:
            for policy, report in reports.items():
                now_s = self._throttles[policy].clock_s()
                add_uses(session, policy, {caller: _taken(use, now_s) for caller, use in report.uses.items()})
            for policy in reports:
                learned[policy] = uses_changed(session, policy, within)
        if began_s - self._forgot_at_s >= _FORGOTTEN_EVERY_S:
            with transaction(self._database) as session:
                forget_uses(session)
            self._forgot_at_s = began_s
        self._read_at_s = began_s
        return learned


def _taken(use: Use, now_s: float) -> TakenUse:
    return TakenUse(added=timedelta(seconds=use.added_s), left=timedelta(seconds=use.until_s - now_s))
