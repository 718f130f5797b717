"""Start-up figures that vLLM printed on real GPUs, and the same figures as the rules give them.

A log names its model loosely; `MODELS` says which model of the catalogue and which format it was, and what its command
line had that the row has no field for.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from service.catalog.vllm_models import published_model
from service.core.engines.vllm.capacity import Capacity, blocks_of, capacity
from service.core.engines.vllm.defaults import batch_sizes
from service.core.engines.vllm.deployment import Deployment, Layout, Run
from service.core.engines.vllm.derived import derived_model
from service.core.engines.vllm.kv_cache import CachePlan, CacheRules, cache_plan
from service.core.engines.vllm.model import Layer, VllmModel
from service.core.engines.vllm.stages import even_partition
from service.core.engines.vllm.versions import VersionRules, version_rules
from service.core.types import Gpu
from service.core.units import GIB
from tests.planner import builtin_planner

LOGS = Path(__file__).parent / "observed" / "vllm.jsonl"
PRINTED_GIB = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a log's model is. speculative_tokens: of MTP. keeps_prefixes: prefix caching, which hybrids pay for.

    kv_heads: where the checkpoint of that day had others. context_tokens: max_model_len where the row's own is not that
    of its figures. text_only: without the encoder of images. partition: VLLM_PP_LAYER_PARTITION. whole_state: linear
    attention is left in 16 bits. on_marlin: with the kernels of older cards, as the log says.
    """

    model: str
    scheme: str
    speculative_tokens: int = 0
    keeps_prefixes: bool = True
    kv_heads: int | None = None
    context_tokens: int | None = None
    text_only: bool = False
    whole_state: bool = False
    on_marlin: bool = False
    partition: tuple[int, ...] | None = None
    total_gib: float | None = None


MODELS = {
    "vllm-10511-tp1": Named(model="llama-3-8b", scheme="BF16"),
    "vllm-10511-tp2": Named(model="llama-3-8b", scheme="BF16"),
    "vllm-10517-20k": Named(model="llama-3.1-8b", scheme="BF16"),
    "vllm-13882": Named(model="qwen2.5-7b", scheme="AWQ"),
    "vllm-21348": Named(model="qwen3-235b-a22b", scheme="FP8"),
    "vllm-27508": Named(model="gpt-oss-120b", scheme="MXFP4"),
    "vllm-23278": Named(model="gpt-oss-120b", scheme="MXFP4", on_marlin=True),
    "vllm-34076": Named(model="qwen3-30b-a3b", scheme="FP8", partition=(16, 32), context_tokens=262_144),
    "vllm-15676": Named(model="gemma-3-27b", scheme="BF16"),
    "vllm-14696": Named(model="gemma-3-1b", scheme="BF16"),
    # published in July 2024 with 16 KV heads, each of the eight twice
    "vllm-6746": Named(model="llama-3.1-405b", scheme="FBGEMM-FP8", kv_heads=16),
    "vllm-57475": Named(model="qwen3.6-27b", scheme="NVFP4", total_gib=23.47),
    "club3090-91": Named(model="qwen3.6-27b", scheme="INT4", speculative_tokens=3),
    "club3090-642": Named(model="qwen3.6-27b", scheme="INT4", speculative_tokens=3),
    "club3090-142": Named(model="qwen3.6-27b", scheme="INT4", speculative_tokens=3),
    "club3090-612": Named(model="qwen3.6-35b-a3b", scheme="NVFP4"),
    "club3090-652": Named(model="qwen3.6-35b-a3b", scheme="NVFP4"),
    "club3090-1047": Named(model="qwen3.6-27b", scheme="NVFP4"),
    "club3090-232": Named(model="qwen3.6-27b", scheme="INT4"),
    "myoceane-gptoss20b": Named(model="gpt-oss-20b", scheme="MXFP4"),
    "idx-57769339834": Named(model="qwen3.6-35b-a3b", scheme="FP8"),
    "idx-39735714735": Named(model="qwen2.5-72b", scheme="AWQ", total_gib=44.45),
    "idx-14319663172": Named(model="llama-3.1-8b", scheme="BF16"),
    "idx-10876549642": Named(model="llama-3.3-70b", scheme="AWQ"),
    "idx-42514581982": Named(model="qwen3-30b-a3b", scheme="BF16"),
    # llm-compressor's recipe for this model ignores linear_attn; its 708,425 tokens are those of 131,072-token requests
    "idx-68835604738-092": Named(
        model="qwen3-next-80b-a3b", scheme="INT4", context_tokens=131_072, total_gib=63.4, whole_state=True
    ),
    "idx-68835604738-075": Named(model="qwen3-next-80b-a3b", scheme="INT4", total_gib=63.4, whole_state=True),
    "idx-62864980973": Named(model="qwen3-30b-a3b", scheme="BF16"),
    "idx-61942353725-16": Named(model="qwen3.6-27b", scheme="FP8", keeps_prefixes=False),
    "idx-53128951888": Named(model="qwen2.5-7b", scheme="BF16"),
}
"""Rows whose model and format are known."""

CARDS = {
    "H100 80GB": "h100-sxm5-80gb", "RTX 3090": "rtx-3090", "RTX 4060 8GB": "rtx-4060", "A100 80GB": "a100-sxm4-80gb",
    "RTX 5070 Ti 16GB": "rtx-5070-ti", "RTX 5090D 32GB": "rtx-5090", "RTX 5090": "rtx-5090", "A40": "a40",
    "RTX A6000": "rtx-a6000", "L40S": "l40s", "GB10": "dgx-spark-gb10", "RTX 4090": "rtx-4090",
    "A10/L4 24GB-class": "a10", "RTX 5090 Laptop 24GB": "rtx-5090-laptop",
}  # fmt: skip
"""What logs call cards, by their names in the catalogue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One log; `facts` as the file has them."""

    id: str
    facts: dict[str, Any] = field(hash=False)
    named: Named

    @property
    def tensor_parallel(self) -> int:
        """Ranks that share every layer."""
        return self.facts["tp"] or 1

    @property
    def max_model_len(self) -> int:
        """Longest request of its figures."""
        return self.named.context_tokens or self.facts["max_model_len"] or self.model.trained_context_tokens

    @property
    def rules(self) -> VersionRules:
        """Rules of its release, of its date, or the newest."""
        stated = (self.facts["vllm_version"] or "").split("/")[0].split(" ")[0]
        if stated[:1].isdigit():
            return version_rules(stated, None)
        if "V0" in (self.facts["vllm_version"] or ""):
            return version_rules("0.6.5", None)
        return version_rules(None, self.facts["date"])

    @property
    def model(self) -> VllmModel:
        """Its model as the catalogue's shapes give it."""
        models = builtin_planner().catalogues.models
        shapes = models.model(models.resolve(self.named.model).row)
        model = derived_model(shapes, self.named.scheme, published_model(self.named.model).extras)
        if self.named.kv_heads is not None:
            model = with_kv_heads(model, self.named.kv_heads)
        if self.named.whole_state:
            model = replace(model, layers=tuple(map(_with_whole_state, model.layers)))
        return replace(model, vision=None) if self.named.text_only else model

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """Its cards, of the sizes it states."""
        catalogue, facts = builtin_planner().catalogues.gpus, self.facts
        cards = tuple(gpu for name in facts["gpus"] for gpu in catalogue.gpus(CARDS.get(name, "rtx-3090")))
        if self.named.on_marlin:
            cards = tuple(replace(gpu, compute_capability=None) for gpu in cards)
        total = self.named.total_gib or facts["gpu_mem_gib"]
        return cards if total is None else tuple(replace(gpu, total_bytes=round(total * GIB)) for gpu in cards)

    def deployment(self) -> Deployment:
        """The deployment it logged."""
        facts, rules, model = self.facts, self.rules, self.model
        stages = facts["pp"] or 1
        batch = batch_sizes(
            self.gpus[0], rules, batched_tokens=facts["max_num_batched_tokens"], seqs=facts["max_num_seqs"],
            max_model_len=self.max_model_len,
        )  # fmt: skip
        layout = Layout(
            tensor_parallel=self.tensor_parallel,
            pipeline_parallel=stages,
            data_parallel=1,
            partition=self.named.partition or even_partition(len(model.layers), stages),
            expert_parallel=False,
            cards=tuple(range(self.tensor_parallel * stages)),
        )
        run = Run(
            rules=rules,
            utilization=facts["gpu_memory_utilization"] or rules.gpu_memory_utilization,
            batch=batch,
            dtype="bfloat16",
            kv_cache_dtype=facts["kv_cache_dtype"] or "bfloat16",
            eager=bool(facts["enforce_eager"]),
            speculative_tokens=self.named.speculative_tokens,
        )
        gpus = self.gpus
        return Deployment(model=model, gpus=gpus * (len(layout.cards) // len(gpus) or 1), layout=layout, run=run)

    def cache(self) -> tuple[CachePlan, CacheRules]:
        """Groups of its KV cache."""
        rules = replace(
            self.deployment().cache_rules, align_state=self.named.keeps_prefixes and self.model.has_state
        )  # fmt: skip
        return cache_plan(self.model, rules), rules

    def capacity_of(self, available_gib: float) -> Capacity:
        """What so much memory for the cache holds."""
        plan, rules = self.cache()
        blocks = blocks_of(round(available_gib * GIB), plan.block_bytes())
        return capacity(plan, [blocks], self.max_model_len, rules, self.rules)


def with_kv_heads(model: VllmModel, kv_heads: int) -> VllmModel:
    """The same model with its KV heads repeated, as it was first published."""
    layers = []
    for layer in model.layers:
        matrices = tuple(
            replace(each, rows=each.rows // each.parts * kv_heads, parts=kv_heads)
            if each.division == "kv_heads"
            else each
            for each in layer.matrices
        )
        layers.append(replace(layer, matrices=matrices))
    return replace(model, layers=tuple(layers), kv_heads=kv_heads)


def _with_whole_state(layer: Layer) -> Layer:
    return replace(
        layer,
        matrices=tuple(replace(each, role="state_gates") if each.role == "state" else each for each in layer.matrices),
    )


@cache
def observed_rows() -> tuple[Row, ...]:
    """Every log whose model is known."""
    return tuple(_rows())


def _rows() -> Iterator[Row]:
    for line in LOGS.read_text("utf-8").splitlines():
        facts = json.loads(line)
        if facts["id"] in MODELS:
            yield Row(id=facts["id"], facts=facts, named=MODELS[facts["id"]])


def available_gib(row: Row) -> float | None:
    """Memory for the cache as logged, or as the log's other figures leave it."""
    facts = row.facts
    if facts["available_kv_gib"] is not None:
        return float(facts["available_kv_gib"])
    parts = [facts[name] for name in ("gpu_mem_gib", "gpu_memory_utilization", "weights_gib_per_gpu")]
    if None in parts or facts["activation_peak_gib"] is None:
        return None
    return float(parts[0] * parts[1] - parts[2] - facts["activation_peak_gib"] - (facts["non_torch_gib"] or 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One figure of one log beside the rules'; low and high: what the rules make of the log's rounding."""

    row: Row
    figure: str
    printed: float
    low: float
    high: float

    @property
    def mid(self) -> float:
        """The rules' figure."""
        return (self.low + self.high) / 2

    @property
    def error(self) -> float:
        """Difference as a share of what was printed."""
        return self.mid / self.printed - 1 if self.printed else abs(self.mid)

    @property
    def is_within_rounding(self) -> bool:
        """Whether the printed figure is one that the rules allow."""
        return self.low <= self.printed <= self.high


def weights_compared() -> list[Compared]:
    """Weights of a rank in GiB."""
    found = []
    for row in observed_rows():
        printed = row.facts["weights_gib_per_gpu"]
        if printed is not None:
            planned = row.deployment().ranks[0].weights_bytes / GIB
            found.append(Compared(row=row, figure="weights GiB", printed=printed, low=planned, high=planned))
    return found


def capacities_compared() -> list[Compared]:
    """Tokens and concurrency of the cache, from the memory that the log gives it."""
    found = []
    for row in observed_rows():
        available, facts = available_gib(row), row.facts
        if available is None:
            continue
        low, high = row.capacity_of(available - PRINTED_GIB), row.capacity_of(available + PRINTED_GIB)
        if facts["kv_tokens"] is not None:
            found.append(
                Compared(row=row, figure="tokens", printed=facts["kv_tokens"], low=low.tokens, high=high.tokens)
            )
        if facts["max_concurrency"] is not None:
            found.append(
                Compared(
                    row=row, figure="concurrency", printed=facts["max_concurrency"],
                    low=low.concurrency - 0.005, high=high.concurrency + 0.005,
                )
            )  # fmt: skip
    return found


def available_compared() -> list[Compared]:
    """Memory for the cache in GiB, nothing of the log used but its command line and the card."""
    found = []
    for row in observed_rows():
        printed = row.facts["available_kv_gib"]
        if printed is None or row.id in CARD_UNKNOWN:
            continue
        planned = min(rank.available_bytes for rank in row.deployment().ranks) / GIB
        found.append(Compared(row=row, figure="available GiB", printed=printed, low=planned, high=planned))
    return found


CARD_UNKNOWN = {
    "vllm-21348": "the share of memory is not stated",
    "vllm-23278": "the share of memory is not stated",
    "vllm-13882": "nothing was left for the cache",
    "idx-57769339834": "the card is not stated",
    "idx-10876549642": "the card is not stated",
    "idx-42514581982": "the share of memory is not stated",
    "idx-53128951888": "the card is not stated",
}
"""Rows whose memory for the cache cannot be computed, and why."""

DIFFERENCES = {
    "vllm-27508": "gpt-oss on H100 in 0.11 left 5 to 7 GiB less than its weights and activations explain",
    "vllm-57475": "whether the image encoder was loaded is not stated; the checkpoint's mix of formats is not known",
    "idx-62864980973": "unified memory: weights and cache printed are more than the share of memory stated",
    "club3090-1047": "which layers this NVFP4 checkpoint leaves in 16 bits is not known",
    "vllm-21348": "the printed memory is not that of the rank with the fewest blocks",
}
"""What is known of figures that are missed."""


def unnamed_rows() -> list[str]:
    """Logs that are not compared, because no model of the catalogue is known to be theirs."""
    ids = [json.loads(line)["id"] for line in LOGS.read_text("utf-8").splitlines()]
    return [each for each in ids if each not in MODELS]
