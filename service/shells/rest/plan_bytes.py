"""Plans as they are sent: read from the bytes of a question, written once, and kept as bytes while nothing changes."""

from typing import Final

from service.contract.json_bytes import json_bytes
from service.contract.validation import parse_request
from service.core.problems import InvalidRequest
from service.planning.kept_answers import KeptByFacts, names_only
from service.planning.planner import Planner

# longer questions, which state a rig of many cards or patterns for tensors, are answered from the planner's own memory
LONGEST_KEPT_BYTES: Final = 4096


class PlanBytes:
    """Answers in JSON by questions in JSON; safe to share between threads."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._kept: KeptByFacts[bytes, tuple[str, bytes]] = KeptByFacts()

    def again(self, body: bytes) -> bytes | None:
        """The answer to the very bytes of an earlier question, at once; None where it has to be planned."""
        if not self._planner.catalogues.is_at_hand:
            return None
        kept = self._kept.answer(body, self._planner.facts())
        if kept is None:
            return None
        engine, answer = kept
        self._planner.given_again(engine)
        return answer

    def plan(self, body: bytes) -> bytes:
        """Answer a question.

        Raises PlanProblem as `parse_request` and `Planner.plan` do, InvalidRequest where there is no question.
        """
        if not body:
            raise InvalidRequest("The request has no body; send JSON.")
        request = parse_request(body)
        # from before the answer: what changes meanwhile makes it one of the past
        facts = self._planner.facts()
        answer = json_bytes(self._planner.plan(request))
        if len(body) <= LONGEST_KEPT_BYTES and names_only(request):
            self._kept.keep(body, (request.engine.name, answer), facts)
        return answer
