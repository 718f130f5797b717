"""What is done about a file that fails: it is said once, and planning goes on without."""

import logging
import sqlite3
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_MOST_BUSY: Final = 3
_PRIMARY: Final = 0xFF
"""The part of SQLite's extended codes that says of which kind a failure is."""


class Trouble:
    """Whether a file may be read and written after what went wrong so far.

    One that is damaged is begun anew once; one that others hold on to is left alone after the third time, one that
    cannot be read or written at once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._busy_times = 0
        self._begun_anew = self._said = False
        self.may_read = self.may_write = True
        self.is_damaged = False

    def met(self, failure: Exception, *, writing: bool) -> None:
        """Take a failure into account."""
        code = getattr(failure, "sqlite_errorcode", 0) & _PRIMARY
        if code in _BUSY and self._busy_times < _MOST_BUSY:
            self._busy_times += 1
        elif code in _DAMAGED and not self._begun_anew:
            self.is_damaged, self.may_read = True, False
            self._say("is damaged and begun anew", failure)
        elif writing:
            self.may_write = False
            self._say("is not written any more", failure)
        else:
            self.may_read = False
            self._say("is not read any more", failure)

    def begun_anew(self) -> None:
        """The damaged file is gone."""
        self.is_damaged, self.may_read, self._begun_anew = False, True, True

    def _say(self, what: str, failure: Exception) -> None:
        if not self._said:
            self._said = True
            log.warning("the file of kept graphs %s %s, plans are made without: %s", self._path, what, failure)
