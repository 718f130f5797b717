"""Rows of tests/golden: what llama.cpp itself allocated, and the request each row stands for."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from service.builtin import builtin_folder
from service.core.architectures.hparams import Hparams, read_hparams
from service.core.engines.llamacpp.context import ContextNumbers, resolve_context
from service.core.engines.llamacpp.settings import LlamaCppSettings, Tool
from service.core.engines.llamacpp.slots import SlotMap, resolve_n_gpu_layers, split_slots
from service.core.engines.llamacpp.versions import NEWEST
from service.core.types import Model
from tests.models import load_architecture_model, load_graph_model, load_model

GOLDEN = Path(__file__).parent / "golden"
PLACEMENT_FILES = ("placement", "placement_new", "quants", "architectures")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRow:
    """One row: `file` and `id` name it, `config` is what was asked, `observed` what was allocated."""

    file: str
    id: str
    model_name: str
    config: dict[str, Any]
    observed: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.id} {self.model_name} {self.config}"

    @property
    def model(self) -> Model:
        """The model of the row; a quant without a header here stands in by another of the same model."""
        if self.file == "architectures":
            return load_architecture_model(self.model_name)
        if self.file.startswith("graphs"):
            return load_graph_model(self.model_name)
        if self.has_header:
            return load_model(self.model_name)
        name = self.model_name.partition(":")[0]
        other = min((builtin_folder("model_db") / name).glob("*.gguf.xz"))
        return load_model(f"{name}:{other.name.removesuffix('.gguf.xz')}")

    @property
    def has_header(self) -> bool:
        """Whether the header of exactly this quant is in the catalogue."""
        name, _, quant = self.model_name.partition(":")
        return self.file == "architectures" or (builtin_folder("model_db") / name / f"{quant}.gguf.xz").exists()

    @property
    def hp(self) -> Hparams:
        """Shape of the row's model."""
        return read_hparams(self.model)

    @property
    def n_devices(self) -> int:
        """Number of devices."""
        return int(self.config["n_devices"])

    def settings(self, tool: Tool = "llama-server") -> LlamaCppSettings:
        """The row's engine settings; flash attention is on where the row does not say."""
        config = self.config
        split = config.get("tensor_split")
        return LlamaCppSettings(
            tool=tool,
            split_mode=config.get("split_mode"),
            tensor_split=None if split is None else tuple(float(share) for share in split),
            n_gpu_layers=config["ngl"],
            n_batch=config.get("n_batch", 2048),
            n_ubatch=config.get("n_ubatch", 512),
            flash_attn=config.get("flash_attn"),
            cache_type_k=config.get("cache_type_k"),
            cache_type_v=config.get("cache_type_v"),
            kv_unified=config.get("kv_unified"),
            swa_full=config.get("swa_full", False),
            n_cpu_moe=config.get("n_cpu_moe"),
            kv_offload=not config.get("no_kv_offload", False),
        )

    def ctx(self, tool: Tool = "llama-server") -> ContextNumbers:
        """The context numbers of the row."""
        return resolve_context(
            self.hp, self.settings(tool), self.config["ctx"], self.config.get("n_parallel", 1), NEWEST
        )

    @property
    def slots(self) -> SlotMap:
        """Layers to devices, which all report the same free memory."""
        weights = self.config.get("tensor_split") or [1.0] * self.n_devices
        n_layer_all = self.hp.n_layer_all
        return split_slots(n_layer_all, resolve_n_gpu_layers(self.config["ngl"], n_layer_all), weights)


@cache
def golden_rows(file: str) -> tuple[GoldenRow, ...]:
    """All rows of tests/golden/<file>.jsonl."""
    return tuple(_rows(file))


def _rows(file: str) -> Iterator[GoldenRow]:
    for line in (GOLDEN / f"{file}.jsonl").read_text().splitlines():
        row = json.loads(line)
        yield GoldenRow(
            file=file, id=row["id"], model_name=row["model"], config=row["config"], observed=row["observed"]
        )
