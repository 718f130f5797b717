"""Problems on the command line: JSON on stdout for programs, a sentence on stderr for people, exit status 2."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from service.core.problems import PlanProblem

PROBLEM_EXIT_STATUS = 2


@contextmanager
def exit_on_problem(*, as_json: bool) -> Iterator[None]:
    """Show a problem that the block raises and leave with status 2."""
    try:
        yield
    except PlanProblem as refused:
        from service.contract.problem import problem_of  # noqa: PLC0415 - only where there is a problem

        answer = problem_of(refused)
        if as_json:
            sys.stdout.write(answer.model_dump_json(exclude_defaults=True) + "\n")
        else:
            sys.stderr.write(f"rigfit: {answer.title}: {answer.detail}\n")
            known = [suggestion for suggestion in answer.suggestions if suggestion not in answer.detail]
            if known:
                sys.stderr.write(f"  close: {', '.join(known)}\n")
        sys.exit(PROBLEM_EXIT_STATUS)
