"""The load generator: wrk, which costs far less per request than any server of Python."""

import json
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_suffix(".lua")


@dataclass(frozen=True, slots=True)
class Load:
    """What one window of load saw."""

    requests: int
    duration_s: float
    p50_s: float
    p99_s: float
    failed: int

    @property
    def requests_per_s(self) -> float:
        """Answers in a second."""
        return self.requests / self.duration_s


class Bodies:
    """Request bodies in a file, sent in turn; a window begins where the one before ended."""

    def __init__(self, path: Path, questions: Iterable[dict[str, object]]) -> None:
        self.path = path
        self._sent = 0
        lines = [json.dumps(question) for question in questions]
        self._count = len(lines)
        path.write_text("\n".join(lines), "utf-8")

    def load(self, url: str, *, duration_s: float, connections: int, pause_s: float = 0.0) -> Load:
        """Send from `connections` at once, each pausing `pause_s` on average between answer and next request.

        Raises LookupError where bodies that must differ were used up, ChildProcessError where wrk failed.
        """
        arguments = [
            "wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{max(1, round(duration_s))}s",
            "--timeout", "30s", "--script", str(SCRIPT), url, "--",
            str(self.path), str(self._sent), str(pause_s * 1000),
        ]  # fmt: skip
        ran = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise ChildProcessError(f"wrk failed: {ran.stdout}{ran.stderr}")
        load = Load(**json.loads(ran.stdout.splitlines()[-1]))
        # what was still on its way at the end of the window was taken, too
        self._sent += load.requests + connections
        if 1 < self._count < self._sent:
            raise LookupError(f"{self._count} different questions are too few")
        return load


def is_installed() -> bool:
    """Whether wrk is there; on Debian it is a package of that name."""
    return shutil.which("wrk") is not None
