"""`rigfit compare`: models, quants, rigs and contexts for one question, as a table."""

import sys
from typing import Any

from service.contract.compare import CompareRequest, Comparison
from service.contract.validation import parse_as, validate_as
from service.core.problems import InvalidRequest
from service.planning.compare import comparison_of, csv_of_comparison
from service.planning.local import local_planner
from service.shells.cli import flags
from service.shells.cli.compare_table import print_comparison
from service.shells.cli.plan import opened
from service.shells.cli.problems import exit_on_problem


def compare(given: dict[str, Any]) -> None:
    """Answer a comparison stated as flags or as JSON."""
    with exit_on_problem(as_json=given["as_json"]):
        table = comparison_of(_request(given), local_planner())
    _print(table, as_json=given["as_json"], as_csv=given["as_csv"])


def _request(given: dict[str, Any]) -> CompareRequest:
    if given["request"] is not None:
        if given["models"]:
            raise InvalidRequest("name models, or give --request, not both")
        with opened(given["request"]) as stream:
            return parse_as(CompareRequest, stream.read())
    workload = {
        name: given[name] for name in ("parallel", "prompt_tokens", "cached_tokens", "output_tokens") if given[name]
    }
    engine = {
        "flash_attn": flags.switch(given["flash_attn"]),
        "cache_type_k": given["cache_type_k"],
        "cache_type_v": given["cache_type_v"],
        "split_mode": given["split_mode"],
        "version": given["version"],
        "date": given["date"],
    }
    stated: dict[str, Any] = {
        "base": {"workload": workload, "engine": {name: value for name, value in engine.items() if value is not None}},
        "models": [flags.model_reference(model) for model in given["models"] or ()] or None,
        "rigs": given["rigs"] or None,
        "quants": given["quants"] or None,
        "contexts": given["contexts"] or None,
    }
    return validate_as(CompareRequest, stated)


def _print(table: Comparison, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        sys.stdout.write(table.model_dump_json() + "\n")
    elif as_csv:
        sys.stdout.write(csv_of_comparison(table))
    else:
        print_comparison(table)
