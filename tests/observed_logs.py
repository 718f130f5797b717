"""Rows of tests/observed: figures of public llama.cpp logs, and the model and request each row stands for."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.engines.llamacpp.context import ContextNumbers, resolve_context
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import VersionRules, version_rules
from service.core.types import Backend, MetadataValue, Model
from service.core.units import MIB
from tests.models import load_model

OBSERVED = Path(__file__).parent / "observed"
FILES = ("llamacpp", "llamacpp_sweep_qwen35_122b")

FLASH_ATTENTION = {"1": True, "on": True, "ena": True, "0": False, "0 (": False, "off": False, "dis": False}

# the catalogue's model where a log names one and does not print its shape
CATALOGUE = {
    "ik-dsv3-0324-iq2kr4-4gpu-ngl27": "deepseek-r1-671b:Q4_K_M",
    "ik-r1-0528-3gpu-thireus": "deepseek-r1-671b:Q4_K_M",
    "kimi-k2-iq4xs-4gpu-ik": "kimi-k2-1t:Q4_K_M",
    "mixtral-8x7b-q5km-2x7900xtx": "mixtral-8x7b:Q4_K_M",
    "mistral7b-q5km-4xmi100": "mistral-7b:Q4_K_M",
    "qwen35-35b-q4km-3xa770-sycl": "qwen3.5-35b-a3b:Q4_K_M",
    "qwen36-35b-mtp-cpumoe-1gpu": "qwen3.6-35b-a3b:Q4_K_M",
    "nemotron-ultra-550b-5090-b16": "nemotron-3-ultra-550b-a55b:Q4_K_M",
    "gemma4-12b-qat-5070l-g1": "gemma-4-12b:Q4_K_M",
    "gemma4-12b-qat-5070l-g9": "gemma-4-12b:Q4_K_M",
    "gemma4-12b-qat-5070l-g5": "gemma-4-12b:Q4_K_M",
    "gemma4-12b-qat-5070l-g7": "gemma-4-12b:Q4_K_M",
    "gemma4-e4b-class-3gpu-c128k": "gemma-4-e4b:Q4_K_M",
}

# metadata key by the name llama.cpp's log prints it under
KEYS = {
    "n_layer": "block_count",
    "n_embd": "embedding_length",
    "n_ctx_train": "context_length",
    "n_head": "attention.head_count",
    "n_head_kv": "attention.head_count_kv",
    "n_embd_head_k": "attention.key_length",
    "n_embd_head_v": "attention.value_length",
    "n_rot": "rope.dimension_count",
    "n_ff": "feed_forward_length",
    "n_vocab": "vocab_size",
    "n_expert": "expert_count",
    "n_expert_used": "expert_used_count",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRow:
    """One log."""

    values: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Name of the row."""
        return str(self.values["id"])

    @property
    def backend(self) -> Backend:
        """Backend of the devices."""
        return cast("Backend", self.values["backend"].lower())

    @property
    def rules(self) -> VersionRules:
        """Rules of the build, or of the date where the build is not one of upstream's."""
        build = re.match(r"b\d{4,}", self.values.get("build") or "")
        date = str(self.values["date"])
        fork = self.id.startswith("ik-")
        if build is not None and not fork:
            return version_rules(build[0], None)
        return version_rules(None, date if len(date) > 4 else f"{date}-10")

    @property
    def flags(self) -> Mapping[str, Any]:
        """Command-line flags as the log's command spells them."""
        return cast("Mapping[str, Any]", self.values["flags"])

    @property
    def states_shape(self) -> bool:
        """Whether the log prints what the cache depends on."""
        return self.values["arch"] is not None and self.values["hparams"].get("n_embd_head_k") is not None

    @property
    def hp(self) -> Hparams:
        """Shape of the model."""
        reference = CATALOGUE.get(self.id)
        return read_hparams(load_model(reference) if reference is not None else _logged_model(self.id))

    @property
    def parallel(self) -> int:
        """Streams; four where llama-server was left to choose and already did so."""
        stated = self.flags.get("np")
        return int(stated) if stated else 4 if self.rules.has("server_default_slots") else 1

    def settings(self) -> LlamaCppSettings:
        """Engine settings of the command."""
        flash = str(self.flags.get("fa") or "")[:3].strip()
        type_k = self.flags.get("ctk")
        type_v = self.flags.get("ctv")
        return LlamaCppSettings(
            n_batch=self.flags.get("b") or 2048,
            n_ubatch=self.flags.get("ub") or 512,
            flash_attn=FLASH_ATTENTION.get(flash),
            cache_type_k=type_k,
            cache_type_v=type_k if type_v in (None, "mla") else type_v,
            kv_unified=self.unified,
        )

    @property
    def unified(self) -> bool:
        """Whether all streams share one cache, as the log's own summary says or the tool's default is."""
        summary = " ".join(self.values.get("kv_summary_lines") or ())
        printed = re.search(r"(\d+)/ ?(\d+) seqs", summary)
        if printed is not None:
            return printed[2] == "1"
        other = str(self.flags.get("other") or "")
        return not self.flags.get("np") or "auto" in other or "kv_unified" in other

    def ctx(self) -> ContextNumbers:
        """Context numbers of the command."""
        return resolve_context(self.hp, self.settings(), int(self.flags["c"]), self.parallel, self.rules)

    @property
    def kv_mib(self) -> float:
        """KV cache over all devices and the host, as printed."""
        total = self.values.get("kv_total_mib")
        if total is not None:
            return float(total)
        host = self.values["host"].get("kv_mib") or {}
        devices: list[float] = [device["kv_mib"] or 0 for device in self.values["devices"]]
        return sum(devices) + sum(map(float, host.values()))

    @property
    def state_mib(self) -> float:
        """Recurrent state over all devices, as printed."""
        return sum(device.get("rs_mib") or 0 for device in self.values["devices"])

    @property
    def printed_step_mib(self) -> float:
        """What rounding may have hidden: a hundredth a buffer, or one MiB where only whole ones are printed."""
        figures = [device["kv_mib"] for device in self.values["devices"] if device["kv_mib"]]
        whole = self.values.get("kv_total_mib") is not None or all(isinstance(figure, int) for figure in figures)
        return 1.0 if whole else 0.01 * len(self.values["devices"])


@cache
def observed_rows() -> Mapping[str, ObservedRow]:
    """All rows, by id; a row that both files hold counts once."""
    return MappingProxyType({row.id: row for row in _rows()})


def _rows() -> Iterator[ObservedRow]:
    for file in FILES:
        for line in (OBSERVED / f"{file}.jsonl").read_text().splitlines():
            row = {"arch": None, **json.loads(line)}
            yield ObservedRow(values=MappingProxyType(row))


@cache
def _logged_model(row_id: str) -> Model:
    row = observed_rows()[row_id].values
    shape, architecture = row["hparams"], str(row["arch"])
    metadata: dict[str, MetadataValue] = {
        f"{architecture}.{suffix}": shape[name] for name, suffix in KEYS.items() if shape.get(name) is not None
    }
    for suffix, value in (shape.get("gguf_keys") or {}).items():
        if isinstance(value, int | float):
            metadata[f"{architecture}.{suffix}"] = value
    return Model(
        id=row_id,
        name=row["model_name"],
        quant=None,
        architecture=architecture,
        metadata=metadata,
        tensors=(),
        tensor_by_name={},
    )


def mib(size_bytes: int) -> float:
    """Bytes as llama.cpp's log prints them."""
    return size_bytes / MIB
