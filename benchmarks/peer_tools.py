"""Public tools that predict memory or speed, each asked through its own command as its help describes it.

A tool gives None where it cannot express a question.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from service.catalog.gpu_records import GpuRecord
from service.catalog.gpus import builtin_gpus
from service.core.units import GIB

# hidden, feed-forward, layers and heads of Llama 3, for tools that read a config.json
SHAPES: Mapping[str, tuple[int, int, int, int]] = {"8B": (4096, 14336, 32, 32), "70B": (8192, 28672, 80, 64)}
# what modelscout takes for a card that it does not know
MODELSCOUT_UNKNOWN = (500.0, 24 * GIB)


@dataclass(frozen=True, slots=True)
class Question:
    """Decode of one stream of Llama 3: its size, its quant, slugs of the cards, and the tokens."""

    size: str
    quant: str
    gpus: tuple[str, ...]
    context_tokens: int
    output_tokens: int

    @property
    def card(self) -> GpuRecord:
        """The kind of its cards, of which there is one."""
        return builtin_gpus().names.resolve(self.gpus[0]).record


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool: its package and command, how it answers, and what it cannot be asked."""

    package: str
    command: str
    cannot: str
    decode_tokens_per_s: Callable[[Question], float | None] | None = None
    device_bytes: Callable[[Path, int], float | None] | None = None


@cache
def printed(*arguments: str) -> str:
    """What a command prints, "" where it refuses."""
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout if done.returncode == 0 else ""


def printed_json(*arguments: str) -> Any:
    """What a command prints as JSON, None where it refuses."""
    text = printed(*arguments)
    return json.loads(text) if text.strip() else None


@cache
def folder() -> Path:
    """A folder for files that tools read."""
    return Path(tempfile.mkdtemp(prefix="rigfit-peers-"))


def llmfit(question: Question) -> float | None:
    """Its `plan` on a profile with the card's bandwidth and FP16 rate and the memory of all cards."""
    name = f"{question.card.slug}-{len(question.gpus)}"
    hardware = {
        "gpu_memory_bandwidth_gbps": (question.card.memory_bandwidth_bytes_per_s or 0) / 1e9,
        "gpu_vram_gb": (question.card.vram_bytes or 0) * len(question.gpus) / GIB,
        "gpu_compute_tflops_fp16": (question.card.fp16_tensor_dense_flops or 0) / 1e12,
        "total_ram_gb": 64.0,
        "ddr_bandwidth_gbps": 80.0,
        "unified_memory": False,
    }
    profile = folder() / f"{name}.json"
    profile.write_text(json.dumps({"schema_version": 1, "name": name, "hardware": hardware}), "utf-8")
    model = f"meta-llama/Meta-Llama-3-{question.size}-Instruct"
    asked = ["--context", str(question.context_tokens), "--quant", question.quant, "--json"]
    plan = printed_json("llmfit", "--profile", str(profile), "plan", model, *asked)
    rates = [path["estimated_tps"] for path in plan["run_paths"] if path["path"] == "gpu"] if plan else []
    return float(rates[0]) if rates and rates[0] else None


def modelscout(question: Question) -> float | None:
    """Its `scan` of a simulated rig, for the model of the same shape that it knows; None for cards it does not know."""
    cards = f"{len(question.gpus)}x {question.card.name.removeprefix('NVIDIA ').removeprefix('GeForce ')}"
    asked = ["--quant", question.quant, "--context-length", str(question.context_tokens), "--json", "-n", "2000"]
    found = printed_json("modelscout", "scan", "--gpu", cards, *asked)
    if not found:
        return None
    first = found["hardware"]["gpus"][0]
    if (first["memory_bandwidth_gbps"], first["vram_bytes"]) == MODELSCOUT_UNKNOWN:
        return None
    named = f"llama-3.1-{question.size.lower()}-instruct"
    rates = [each["estimated_tok_per_sec"] for each in found["recommendations"] if each["model_id"] == named]
    return float(rates[0]) if rates else None


def servcalc(question: Question) -> float | None:
    """Its estimate for Ollama, or for F16 the one for Hugging Face's own generation; one card."""
    names = {"a100-pcie-80gb": "A100 80GB", "h100-pcie-80gb": "H100 80GB", "rtx-3080-10gb": "RTX 3080"}
    if len(question.gpus) > 1:
        return None
    hidden, feed_forward, layers, heads = SHAPES[question.size]
    path = folder() / question.size / "config.json"
    path.parent.mkdir(exist_ok=True)
    shape = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "intermediate_size": feed_forward, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
    }  # fmt: skip
    path.write_text(json.dumps(shape), "utf-8")
    card = names.get(question.card.slug, question.card.name.removeprefix("NVIDIA ").removeprefix("GeForce "))
    engine = ["--engine", "hf"]
    if question.quant != "F16":
        engine = ["--engine", "ollama", "--quant", "gguf_q4_k_m", "--num-ctx", str(question.context_tokens)]
    tokens = ["--prompt", "1", "--gen", str(question.output_tokens), "--concurrency", "1", "--json"]
    found = printed_json("servcalc", "estimate", str(path), "--gpu", card, *engine, *tokens)
    interval = found["points"][0]["itl_ms"] if found and found["points"][0]["feasible"] else None
    return 1000 / interval["mid"] if interval else None


def ridgepoint(question: Question) -> float | None:
    """Its `fit` for llama.cpp; it names few cards, of A100 and H100 the SXM boards alone."""
    names = {"rtx-3090": "rtx3090-24gb", "rtx-4090": "rtx4090-24gb"}
    if question.card.slug not in names:
        return None
    cards = f"{names[question.card.slug]}:{len(question.gpus)}"
    quant = "fp16" if question.quant == "F16" else "q4_k_m"
    asked = ["--gpu", cards, "--engine", "llamacpp", "--dtype", quant, "--prompt", "1"]
    model = f"llama-3-{question.size.lower()}"
    found = printed_json("ridgepoint", "fit", model, *asked, "--ctx", str(question.context_tokens), "--json")
    return float(found["speed"]["decode_tok_s"]["best"]) if found and found["verdict"]["serves"] else None


def iaexplore(question: Question) -> float | None:
    """Its profile of Llama 3.1 8B on the one of these cards that it has."""
    if question.gpus != ("rtx-4090",) or question.size != "8B":
        return None
    quant = "FP16" if question.quant == "F16" else question.quant
    asked = ["-m", "llama-3.1-8b", "-hw", "rtx-4090-24gb", "-q", quant, "-c", str(question.context_tokens), "--json"]
    found = printed_json("iaexplore-profiler", *asked)
    return float(found["estimated_tps"]) if found else None


def llm_flops(question: Question) -> float | None:
    """Its latency of one token at FP16; one card, and no quant of GGUF."""
    names = {"rtx-3090": "RTX3090", "rtx-4090": "RTX4090", "rtx-a6000": "A6000", "h100-pcie-80gb": "H100-PCIe"}
    if len(question.gpus) > 1 or question.quant != "F16" or question.card.slug not in names:
        return None
    asked = ["-g", names[question.card.slug], "-p", "fp16", "-s", "1", "--no-backward", "--no-hf", "--json"]
    found = printed_json("llm-flops", "estimate", f"meta-llama/Meta-Llama-3-{question.size}", *asked)
    return 1 / found["details"]["performance"]["decode_latency_per_token_s"] if found else None


def modelinfo_bytes(path: Path, context_tokens: int) -> float | None:
    """What it calls the total minimum required for a file at a context; its GB are GiB."""
    total = re.search(r"~([\d.]+) (GB|MB|TB) Total", printed("modelinfo", str(path), "--context", str(context_tokens)))
    return float(total[1]) * {"MB": GIB / 1024, "GB": GIB, "TB": GIB * 1024}[total[2]] if total else None


def modelinfo_weights_and_cache_bytes(path: Path, context_tokens: int) -> float | None:
    """The same without what it calls overhead."""
    text = printed("modelinfo", str(path), "--context", str(context_tokens))
    parts = re.findall(r"(?:Weights|KV Cache):\s+([\d.]+) (MB|GB|TB)", text)
    return sum(float(n) * {"MB": GIB / 1024, "GB": GIB, "TB": GIB * 1024}[unit] for n, unit in parts) or None


PEERS = (
    Peer("llmfit", "llmfit", "several cards (asked as one card with the memory of all), split modes, flash attention, "
         "builds; speed does not depend on context", llmfit),
    Peer("modelscout-llm", "modelscout", "cards that it does not know: RTX 3070, 3080 Ti, 4000 and 6000 Ada, A6000 are "
         "all taken for one of 500 GB/s; F16 of models without such a file", modelscout),
    Peer("servcalc", "servcalc", "more than one card; llama.cpp itself (Ollama instead, F16: transformers)", servcalc),
    Peer("ridgepoint", "ridgepoint", "cards but for a dozen; PCIe boards of A100 and H100", ridgepoint),
    Peer("iaexplore-llm-profiler", "iaexplore-profiler", "more than one card; of these cards all but RTX 4090; "
         "of these models all but 8B", iaexplore),
    Peer("llm-flops", "llm-flops", "more than one card; quants of GGUF", llm_flops),
    Peer("modelinfo-cli", "modelinfo", "speed; which card holds what; compute buffers", None, modelinfo_bytes),
)  # fmt: skip
