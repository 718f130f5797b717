"""JSON of `vllm bench serve`, `throughput` and `latency`, and of the scripts that came before them.

Source: vllm/benchmarks/serve.py:1310-1440 and 2383-2400, throughput.py:1117, latency.py:171 (vLLM 0.33); the scripts
benchmark_serving.py of earlier versions wrote the same names, without `failed` and `max_concurrency`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from service.measurements.runs import Figure, Flags, ModelSeen, Run, Setup
from service.measurements.values import device_names, number, whole

FORMAT: Final = "vllm bench json"

_SERVE: Final = frozenset({"total_input_tokens", "output_throughput", "mean_ttft_ms"})
_THROUGHPUT: Final = frozenset({"elapsed_time", "tokens_per_second", "requests_per_second"})
_LATENCY: Final = frozenset({"avg_latency", "latencies"})


def is_vllm(document: Mapping[str, object]) -> bool:
    """Whether an object is the result of one of vLLM's benchmarks."""
    return any(keys <= document.keys() for keys in (_SERVE, _THROUGHPUT))


def is_latency(document: Mapping[str, object]) -> bool:
    """Whether an object is the result of `vllm bench latency`, which says how long it took but not for what."""
    return document.keys() >= _LATENCY


def vllm_runs(document: Mapping[str, object], line: int) -> Iterator[Run]:
    """Every figure of one result."""
    setup = _setup(document)
    for figure in _figures(document):
        yield Run(setup=setup, figure=figure, line=line)


def _figures(document: Mapping[str, object]) -> Iterator[Figure]:
    if document.keys() >= _SERVE:
        yield from _served(document)
    else:
        # prompt and answer tokens together, of lengths that the file does not say
        rate = _number(document, "tokens_per_second")
        yield Figure(metric="combined_tokens_per_s", value=rate, cached_tokens=None, parallel=None)


def _served(document: Mapping[str, object]) -> Iterator[Figure]:
    """Decode of each stream, of all together, and the first token, at the mean lengths of the requests."""
    completed = whole(document.get("completed", "")) or 0
    if completed <= 0:
        yield Figure(metric="aggregate_decode_tokens_per_s", value=0.0, parallel=None)
        return
    prompt, output = (
        max(1, round(_number(document, key) / completed)) for key in ("total_input_tokens", "total_output_tokens")
    )
    # without a limit and a rate, every request is sent at once
    streams = whole(document.get("max_concurrency", "")) or completed
    streams = min(streams, completed)
    tpot_s, spread_s = _number(document, "mean_tpot_ms") / 1e3, _number(document, "std_tpot_ms") / 1e3
    if tpot_s > 0:
        yield Figure(
            metric="decode_tokens_per_s",
            value=1 / tpot_s,
            stddev=spread_s / tpot_s**2 if spread_s == spread_s else None,  # noqa: PLR0124 - NaN where not printed
            prompt_tokens=prompt,
            output_tokens=output,
            parallel=streams,
        )
    yield Figure(
        metric="ttft_s",
        value=_number(document, "mean_ttft_ms") / 1e3,
        prompt_tokens=prompt,
        output_tokens=output,
        parallel=streams,
    )


def _setup(document: Mapping[str, object]) -> Setup:
    """What the file says of model and machine; the latter only where --metadata was given."""
    tool = "serve" if document.keys() >= _SERVE else "throughput"
    gpus = document.get("gpu") or document.get("gpus") or document.get("gpu_info")
    return Setup(
        engine="vllm",
        tool=f"vllm bench {tool}",
        model=ModelSeen(name=_text(document, "model_id")),
        flags=Flags(
            tensor_parallel_size=whole(document.get("tensor_parallel_size") or document.get("tp") or ""),
            pipeline_parallel_size=whole(document.get("pipeline_parallel_size") or document.get("pp_size") or ""),
            speculates="spec_decode_acceptance_length" in document,
        ),
        gpus=device_names(str(gpus)) if gpus else None,
        version=_text(document, "vllm_version") or _text(document, "version"),
        tested_at=_text(document, "date"),
    )


def _number(document: Mapping[str, object], key: str) -> float:
    value = number(str(document.get(key, "nan")))
    return float("nan") if value is None else value


def _text(document: Mapping[str, object], key: str) -> str | None:
    value = document.get(key)
    return value[:400] if isinstance(value, str) and value else None
