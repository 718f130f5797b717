"""Compute graphs by architecture, transcribed from llama.cpp's src/models: one small file per family.

How to add one
--------------
Read `src/models/<arch>.cpp` and write a function that makes the same operations in the same order; the operations are
in `compute.ops`, the pieces of llama-graph.cpp in `graphs.blocks` (build_attn: full K and V cache; build_attn_windowed:
iSWA; build_attn_latent: K-only MLA; build_attn_uncached: no cache; build_rs and others: recurrent state)::

    @graph("qwen2")
    def qwen2(g: GraphContext) -> None:          # with the source as docstring: src/models/qwen2.cpp
        cur = token_embeddings(g)
        inp, pos = attention_input(g), positions(g)
        for il in g.layers:                      # not range(n_layer): repeated blocks are left out
            block = g.block(il)                  # block("attn_q.weight"): the weight, or None where the file has none
            residual = cur
            cur = build_rms_norm(g, cur, block("attn_norm.weight"), il)
            q, k, v = build_qkv(g, block, cur, il)
            cur = build_attn(g, inp, block, rope(q, pos), rope(k, pos), v, il)
            cur, residual = g.select_outputs(il, cur, residual)      # the get_rows behind `il == n_layer - 1`
            ffn_inp = add(cur, residual)
            cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
            cur = add(build_ffn(block, cur), ffn_inp)
        rms_output(g, cur)

A model of plain blocks is one row of the table in `graphs/dense.py` instead (`blocks/dense.py` has the choices).

The file is found by itself: any module of this package is imported, and `@graph(name, …)` registers the function for
the architecture names of `general.architecture`.

What matters, since memory is what is computed here:

* Which tensors exist, their shapes and types, who reads them, and the order. Numbers (scales, epsilons, kernels) do
  not.
* Order is that of `ggml_build_forward_expand`: a node follows its sources, sources left to right. So keep the order of
  arguments (`add(a, b)` is not `add(b, a)`; the result has a's shape and may reuse either's memory) and every explicit
  `g.expand` that the source has. Building order alone does not matter.
* `ggml_cb(cur, name, il)` does nothing here, except "norm" (in build_norm: done by `build_rms_norm`) and "l_last"
  (`g.pin_norm`). control vectors and LoRA do not exist here.
* A view's strides matter where it is copied, or where code asks for them; its offset never does.
* Which operations may overwrite a source is in ops.py, operation by operation (rms_norm may, norm may not).
* `g.cache(kind, il)` is a block's K (or rolling state), `g.cache(kind, il, second=True)` its V (or state proper), with
  kinds as in kv_cache.py; `g.input(name, type, …)` a graph input, one per name.
* Weights by their GGUF names: `g.block(il)(...)`, `g.output_weight(...)` (output layer), `g.input_weight(...)` (host),
  `g.shared_weight(name, il)` (rope_freqs and such). Biases and scales: `project`, `linear`, `build_ffn` and
  `output_projection` pick them up by themselves where the file has them.
* Metadata that Hparams lacks: `g.number("suffix", default)`.
* Draft (MTP) layers have a graph of their own, `@draft_layers("name", …)`: `graphs.blocks.draft_layers` has what these
  share, and g.layers are the draft layers.
* A block whose graph depends on its index beyond what its tensors and per-layer hparams say (a pattern by index, a
  reference to another block's result) needs `@graph(..., layer_key=function(hp, il))`: blocks are only merged where
  the key is equal too. `layer_key=lambda hp, il: il` switches merging off.
* `python benchmarks/compute_report.py --arch NAME --rows` compares with the golden tables (`--table architectures` for
  the tiny models of further architectures, `--full` without merging blocks, to tell a wrong graph from a wrong key).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.repetition import CYCLE
from service.core.engines.llamacpp.graphs.context import GraphContext
from service.core.problems import Unsupported

Build: TypeAlias = Callable[[GraphContext], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureGraph:
    """A graph function and, where needed, what distinguishes blocks beyond tensors and per-layer hparams.

    reserves_one_sequence: the largest graph may be that of one sequence, and llama.cpp reserves it as well.
    cycle: blocks after which the hidden state is back at the address it was at. replays: whether blocks that repeat
    others take memory all the same, because each takes some before the first one runs: see `compute.replay`.
    """

    build: Callable[[GraphContext], None]
    layer_key: Callable[[Hparams, int], Hashable] | None = None
    reserves_one_sequence: bool = False
    cycle: int = CYCLE
    replays: bool = False


_GRAPHS: dict[str, ArchitectureGraph] = {}
_DRAFT_LAYERS: dict[str, Build] = {}


def graph(
    *names: str,
    layer_key: Callable[[Hparams, int], Hashable] | None = None,
    reserves_one_sequence: bool = False,
    cycle: int = CYCLE,
    replays: bool = False,
) -> Callable[[Callable[[GraphContext], None]], Callable[[GraphContext], None]]:
    """Register a graph function for the architectures called `names`."""

    def register(build: Callable[[GraphContext], None]) -> Callable[[GraphContext], None]:
        for name in names:
            _GRAPHS[name] = ArchitectureGraph(
                build=build,
                layer_key=layer_key,
                reserves_one_sequence=reserves_one_sequence,
                cycle=cycle,
                replays=replays,
            )
        return build

    return register


def draft_layers(*names: str) -> Callable[[Build], Build]:
    """Register the graph of the draft (MTP) layers of the architectures called `names`; g.layers are those layers."""

    def register(build: Build) -> Build:
        for name in names:
            _DRAFT_LAYERS[name] = build
        return build

    return register


def draft_layers_graph(name: str) -> Build:
    """The graph of the draft layers of the architecture called `name`.

    Raises Unsupported where there is none: llama.cpp runs those of few architectures, whatever layers files hold.
    """
    _load_all()
    found = _DRAFT_LAYERS.get(name)
    if found is None:
        raise Unsupported(
            f"the compute graph of draft (MTP) layers of architecture {name!r} is not known here; known are those of "
            f"{', '.join(sorted(_DRAFT_LAYERS))}: name a draft model instead",
            fields=("engine.draft",),
        )
    return found


@cache
def _load_all() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def architecture_graph(name: str) -> ArchitectureGraph:
    """The graph of the architecture called `name`.

    Raises Unsupported where there is none.
    """
    _load_all()
    found = _GRAPHS.get(name)
    if found is None:
        raise Unsupported(f"the compute graph of architecture {name!r} is not known here", fields=("model",))
    return found
