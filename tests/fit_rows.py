"""Rows of tests/golden: what llama.cpp's own --fit settled on, and the question each row stands for."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from service.core.engines.llamacpp.fit import Fit, fit
from service.core.engines.llamacpp.settings import LlamaCppSettings, OverrideTensor
from service.core.types import Host, Rig, Workload
from tests.golden_rows import GOLDEN
from tests.models import load_model
from tests.rigs import gpu

Config = dict[str, Any]

FLAGS = {"-c": "ctx", "-ctk": "cache_type_k", "-ctv": "cache_type_v"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRow:
    """One row: what was asked of a model on RPC servers, or on the host alone, and what came of it.

    config: as in placement.jsonl. failed: whether the fit gave up.
    """

    id: str
    model: str
    free_bytes: Sequence[int]
    ram_bytes: int | None
    config: Config
    arguments: tuple[str, ...]
    failed: bool

    def fitted(self) -> Fit:
        """What Rigfit says the fit settles on."""
        config = self.config
        rig = Rig(
            gpus=tuple(gpu("rpc", usable_bytes=free) for free in self.free_bytes), host=Host(ram_bytes=self.ram_bytes)
        )
        settings = LlamaCppSettings(
            cache_type_k=config.get("cache_type_k"),
            cache_type_v=config.get("cache_type_v"),
            kv_unified=config.get("kv_unified"),
            kv_offload=not config.get("no_kv_offload", False),
            flash_attn=config.get("flash_attn"),
            n_ubatch=config.get("n_ubatch", 512),
            n_gpu_layers=config.get("ngl"),
            tensor_split=None if "tensor_split" not in config else tuple(map(float, config["tensor_split"])),
            override_tensor=tuple(
                OverrideTensor(pattern=pattern, buffer_type="CPU") for pattern in config.get("override_tensor", ())
            ),
        )
        workload = Workload(context_tokens=config.get("ctx"), parallel=config.get("n_parallel", 1))
        return fit(load_model(self.model), rig, settings, workload)


@cache
def fit_rows() -> tuple[FitRow, ...]:
    """Rows of fit.jsonl, as they were collected."""
    return tuple(_golden_row(row) for row in _lines("fit"))


@cache
def fit_probe_rows() -> tuple[FitRow, ...]:
    """Rows of fit_probe.jsonl, asked of the same library with the headers of model_db."""
    return tuple(
        FitRow(
            id=row["id"],
            model=row["model"],
            free_bytes=tuple(row["device_free_bytes"]),
            ram_bytes=row.get("ram_bytes"),
            config=row["config"],
            arguments=tuple(row["args"]),
            failed=row["failed"],
        )
        for row in _lines("fit_probe")
    )


def _golden_row(row: dict[str, Any]) -> FitRow:
    given = row["user_args"]
    config: Config = {FLAGS[flag]: value for flag, value in zip(given[::2], given[1::2], strict=True)}
    if "ctx" in config:
        config["ctx"] = int(config["ctx"])
    return FitRow(
        id=row["id"],
        model=row["model"],
        free_bytes=tuple(row["device_free_bytes"]),
        ram_bytes=None,
        config=config,
        arguments=tuple(shlex.split(row["fit"]["args"])),
        failed=False,
    )


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text().splitlines()]
