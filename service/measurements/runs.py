"""One benchmark result as its program printed it, before anything in it is matched to a catalogue."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Metric: TypeAlias = Literal[
    "decode_tokens_per_s",
    "prefill_tokens_per_s",
    "aggregate_decode_tokens_per_s",
    "ttft_s",
    "combined_tokens_per_s",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A number that was printed with few digits: the true one lies between `least` and `most`."""

    least: float
    most: float

    @classmethod
    def exactly(cls, value: float) -> "Printed":
        """A number printed in full."""
        return cls(least=value, most=value)

    def holds(self, value: float) -> bool:
        """Whether `value` would have been printed like this."""
        return self.least <= value <= self.most

    @property
    def middle(self) -> float:
        """The likeliest number."""
        return (self.least + self.most) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSeen:
    """What a program said of the model; None where it said nothing.

    description: architecture, size class and quantisation, as llama_model_desc puts them. name: as a model host names
    it. file_name: without folders, which are nobody's business.
    """

    description: str | None = None
    name: str | None = None
    file_name: str | None = None
    size_bytes: Printed | None = None
    parameters: Printed | None = None
    tensors_by_type: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the program was told; None where it does not say, which means the default of its build."""

    n_batch: int | None = None
    n_ubatch: int | None = None
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    n_gpu_layers: int | None = None
    n_cpu_moe: int | None = None
    split_mode: str | None = None
    main_gpu: int | None = None
    kv_offload: bool = True
    flash_attn: bool | None = None
    flash_attn_is_auto: bool = False
    devices: tuple[str, ...] = ()
    tensor_split: tuple[float, ...] = ()
    override_tensor: tuple[str, ...] = ()
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    speculates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What was measured on.

    backends: as printed, () where not stated. gpus: names as drivers give them, None where not stated, () where there
    was none.
    """

    engine: Literal["llama.cpp", "vllm"]
    tool: str
    model: ModelSeen = ModelSeen()
    flags: Flags = Flags()
    backends: tuple[str, ...] = ()
    gpus: tuple[str, ...] | None = None
    cpu: str | None = None
    build_number: int | None = None
    build_commit: str | None = None
    version: str | None = None
    tested_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of one test; stddev over its repetitions, None where there is none.

    `value` is NaN where that was printed. Token counts are None where the program does not say.
    """

    metric: Metric
    value: float
    stddev: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = 0
    output_tokens: int | None = None
    parallel: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One figure with what it was measured on; `line` counts the lines of the text from 1."""

    setup: Setup
    figure: Figure
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A line that was not understood, and why."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that a text holds."""

    runs: Sequence[Run] = ()
    unread: Sequence[Unread] = ()
    formats: Sequence[str] = field(default=())
