"""What decides over the graphs that are built for a question.

Source: what llama_context::graph_reserve reads, src/llama-context.cpp:2523-2600 (llama.cpp in llama-cpp-python 0.3.36).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.engines.llamacpp.buffer_types import buffer_rules
from service.core.engines.llamacpp.compute.block_kinds import Representatives, draft_representatives, representatives
from service.core.engines.llamacpp.compute.footprint import SYMBOLS
from service.core.engines.llamacpp.compute.question import ComputeQuestion
from service.core.engines.llamacpp.compute.shape_twins import shape_twin
from service.core.engines.llamacpp.compute.weights import BLOCK_PREFIX
from service.core.engines.llamacpp.context import ContextNumbers
from service.core.engines.llamacpp.slots import SlotMap
from service.core.engines.llamacpp.versions import CHANGES, Rule, VersionRules
from service.core.types import Backend, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphInputs:
    """A question whose context length is symbolic, or kept where `symbolic` is off.

    built: the blocks that are looked at; two inputs with equal `built_key` have equal graphs whatever their slots.
    moved: weights that are not where their slot is; moved_outside: those of no block, which that key does not tell.
    types_matter: whether the key tells types of weights that devices may copy from the host; without, no such weight
    may be copied.
    """

    model: Model
    hp: Hparams
    ctx: ContextNumbers
    fully_offloaded: bool
    output_device: int
    slots: SlotMap = field(compare=False)
    built: Representatives = field(compare=False)
    built_key: Hashable
    backends: tuple[Backend, ...]
    moved: Mapping[str, int] = field(compare=False)
    moved_outside: tuple[tuple[str, int], ...]
    pipeline_copies: int
    op_offload: bool
    types_matter: bool
    fit_view: bool
    symbolic: bool
    rules: frozenset[Rule]


@lru_cache(maxsize=256)
def _rules_in_force(rules: VersionRules) -> frozenset[Rule]:
    return frozenset(change.rule for change in CHANGES if rules.has(change.rule))


def _of_any_length(ctx: ContextNumbers) -> ContextNumbers:
    """The context with a symbolic number of cells."""
    far = SYMBOLS["base"]
    return replace(ctx, n_ctx=far, n_ctx_seq=far, n_batch=ctx.n_tokens, n_ubatch=ctx.n_tokens)


def graph_inputs(
    question: ComputeQuestion, *, symbolic: bool, every_block: bool = False, types_matter: bool = True
) -> GraphInputs:
    """The part of a question that graphs depend on; every_block: blocks that repeat others are built as well.

    types_matter: off for batches of which devices copy no weights of the host.
    """
    ctx = _of_any_length(question.ctx) if symbolic else question.ctx
    op_offload = question.op_offload and any(buffer_rules(backend).offloads_ops for backend in question.backends)
    model, hp, slots, moved = question.model, question.hp, question.slots, question.tensor_location
    types_matter = types_matter and op_offload and (not slots.fully_offloaded or bool(moved))
    if not types_matter:
        model = shape_twin(model)
        hp = read_hparams(model)
    built = (
        draft_representatives(model, hp, slots, len(question.backends), moved)
        if ctx.mtp
        else representatives(
            model,
            hp,
            slots,
            question.backends,
            moved,
            with_types=types_matter,
            every_block=every_block,
            host_caches=not ctx.offload_kqv,
            reordered="vulkan" in question.backends and question.rules.has("vulkan_reorders"),
        )
    )
    return GraphInputs(
        model=model,
        hp=hp,
        ctx=ctx,
        fully_offloaded=slots.fully_offloaded,
        output_device=slots.output_device,
        slots=slots,
        built=built,
        built_key=built.key,
        backends=question.backends,
        moved=moved,
        moved_outside=tuple((name, device) for name, device in moved.items() if not name.startswith(BLOCK_PREFIX)),
        pipeline_copies=question.pipeline_copies,
        op_offload=op_offload,
        types_matter=types_matter,
        fit_view=question.fit_view,
        symbolic=symbolic,
        rules=_rules_in_force(question.rules),
    )
