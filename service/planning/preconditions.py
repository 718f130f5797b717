"""Edits that say which version they were made from, so that nobody overwrites what he has not seen."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from service.core.problems import PlanProblem

_DIGEST_CHARACTERS: Final = 32


class PreconditionRequired(PlanProblem):
    """An edit that does not say what it was made from."""

    slug = "precondition-required"


class PreconditionFailed(PlanProblem):
    """An edit that was made from what is no longer there."""

    slug = "precondition-failed"


def entity_tag(content: Mapping[str, Any]) -> str:
    """Strong entity tag of a document: a digest of its content, so the same on every replica.

    Source: RFC 9110, 8.8.3.
    """
    canonical = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return f'"{hashlib.sha256(canonical).hexdigest()[:_DIGEST_CHARACTERS]}"'


def check_if_match(if_match: str | None, tag: str) -> None:
    """Raise unless an edit was made from the version that `tag` names; `*` stands for any that is there.

    Source: RFC 9110, 13.1.1 (strong comparison: a weak tag matches nothing); RFC 6585, 3 (428).
    """
    if if_match is None or not if_match.strip():
        raise PreconditionRequired("Send the ETag that you read as If-Match, so that no other edit is overwritten.")
    given = [entry.strip() for entry in if_match.split(",")]
    if given != ["*"] and tag not in given:
        raise PreconditionFailed("It was changed since you read it: read it again and edit that.")
