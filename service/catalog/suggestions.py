"""Names close to one that was not found; only ever shown, never taken."""

from collections.abc import Iterable

LEAST_SCORE = 55.0


def close_names(name: str, choices: Iterable[str], *, limit: int = 5) -> tuple[str, ...]:
    """The `limit` names most like `name`, the closest first; none where nothing is like it."""
    # loading it takes longer than planning does, and only a name that was not found needs it
    from rapidfuzz import fuzz, process, utils  # noqa: PLC0415

    found = process.extract(
        name, list(choices), scorer=fuzz.WRatio, processor=utils.default_process, limit=limit, score_cutoff=LEAST_SCORE
    )
    return tuple(choice for choice, _, _ in found)
