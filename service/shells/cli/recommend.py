"""`rigfit recommend`: rigs that run models as fast as asked, as a table."""

import sys
from typing import Any

from service.contract.recommend import Recommendations, RecommendRequest
from service.contract.validation import parse_as, validate_as
from service.core.problems import InvalidRequest
from service.planning.local import catalogue_planner
from service.planning.recommend import recommend as answer_of
from service.shells.cli import flags
from service.shells.cli.plan import opened
from service.shells.cli.problems import exit_on_problem
from service.shells.cli.recommend_table import print_recommendations

_PLAIN = (
    "min_decode_tokens_per_s", "min_prefill_tokens_per_s", "max_ttft_s", "min_cards", "max_cards", "max_kinds",
    "max_power_w", "max_slots", "max_price", "sort_by", "limit",
)  # fmt: skip
_LISTS = ("gpus", "vendors", "segments", "backends")
_WORKLOAD = ("context_tokens", "parallel", "prompt_tokens", "cached_tokens", "output_tokens")
_ENGINE = ("cache_type_k", "cache_type_v", "split_mode", "version", "date")


def recommend(given: dict[str, Any]) -> None:
    """Answer what is stated as flags or as JSON."""
    with exit_on_problem(as_json=given["as_json"]):
        answer = answer_of(_request(given), catalogue_planner())
    _print(answer, as_json=given["as_json"])


def _request(given: dict[str, Any]) -> RecommendRequest:
    if given["request"] is not None:
        if given["models"]:
            raise InvalidRequest("name models, or give --request, not both")
        with opened(given["request"]) as stream:
            return parse_as(RecommendRequest, stream.read())
    models = [flags.model_reference(model) for model in given["models"] or ()]
    stated: dict[str, Any] = {
        "models": models or None,
        "workload": _stated(given, _WORKLOAD),
        "engine": _stated(given | {"flash_attn": flags.switch(given["flash_attn"])}, (*_ENGINE, "flash_attn")),
        "host": _stated(given, ("ram_bytes",)),
        "prices": dict(map(_price, given["prices"] or ())) or None,
        "allow_host_offload": given["allow_host_offload"],
    }
    lists = {name: given[name] for name in _LISTS if given[name]}
    return validate_as(RecommendRequest, stated | lists | _stated(given, _PLAIN))


def _stated(given: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: given[name] for name in names if given[name] is not None}


def _price(text: str) -> tuple[str, float]:
    name, equals, price = text.partition("=")
    try:
        return name, float(price)
    except ValueError:
        hint = "" if equals else " with an equals sign"
        raise InvalidRequest(
            f"--price takes a card and what it costs{hint}, as in rtx-3090=750, not {text!r}"
        ) from None


def _print(answer: Recommendations, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(answer.model_dump_json() + "\n")
    else:
        print_recommendations(answer)
