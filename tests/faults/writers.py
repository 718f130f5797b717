"""Clients that keep plans while something happens to the service."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx2

from tests.faults.test_database_away import question


@dataclass(slots=True)
class Writer:
    """One that keeps plans, one after the other."""

    client: httpx2.Client
    kept: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Keep plans until stopped."""
        while not self.stop.is_set():
            began_s = time.monotonic()
            try:
                answer = self.client.post("/plans", json=question())
            except httpx2.HTTPError as lost:
                self.failures.append(repr(lost))
                continue
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
            if answer.status_code == 201:
                self.kept.append(answer.headers["location"])
            else:
                self.failures.append(answer.text)


@contextmanager
def writing(client: Callable[[], httpx2.Client]) -> Iterator[Writer]:
    """Keep plans until the end of the block."""
    with client() as opened:
        writer = Writer(opened)
        thread = threading.Thread(target=writer.run)
        thread.start()
        try:
            yield writer
        finally:
            writer.stop.set()
            thread.join()
