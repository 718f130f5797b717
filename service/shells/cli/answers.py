"""Answers to JSON Lines, in order: a few at a time by this process, many by one process per processor."""

from collections.abc import Generator
from typing import BinaryIO

from service.planning.process import processors
from service.shells.cli.lines import answer, batches
from service.shells.cli.workers import Workers

MANY_LINES = 200


def answers(stream: BinaryIO, processes: int | None = None) -> Generator[bytes]:
    """The answer to each line of `stream`; processes: how many there may be, by default one per processor."""
    workers, most = None, processes or processors()
    try:
        for batch in batches(stream):
            if len(batch) > MANY_LINES and most > 1:
                workers = workers or Workers(most)
                yield from workers.answers(batch)
            else:
                yield from map(answer, batch)
    finally:
        if workers is not None:
            workers.close()
