"""What a draft makes cards and host do in every speculative step, and for a prompt."""

from dataclasses import dataclass, replace
from typing import Final

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.companions import Draft
from service.core.engines.llamacpp.draft_layers import DraftLayers
from service.core.engines.llamacpp.loaded import load_model
from service.core.engines.llamacpp.placed import Placement
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.work import model_work
from service.core.timing.speculation import Drafting, DraftPass
from service.core.timing.work import Work
from service.core.types import Model

_AT_ONCE: Final = frozenset({"draft-dflash", "draft-dspark"})
"""Drafts that propose a whole block in one pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftWork:
    """What a draft does: in a step, and for the whole prompt, None where it does not see that."""

    drafting: Drafting
    prompt: Work | None


def draft_work(choice: Choice, trunk: Work) -> DraftWork | None:
    """What the draft of a choice does; trunk: the work of its target. None without one, or where it was not placed.

    Source: common/speculative.cpp: draft-simple 191-410, draft-eagle3 480-870, draft-dflash 955-1330, draft-mtp
    1355-1730 (llama.cpp in llama-cpp-python 0.3.36).
    """
    draft = choice.question.companions.draft
    placed = next((each.placement for each in choice.placement.companions if each.kind == "draft"), None)
    if draft is None or placed is None:
        return None
    question = choice.question
    if draft.model is None:
        elsewhere = load_model(question.model, question.rig, choice.settings, load_mtp=True).locations
        return _layers(DraftLayers(
            model=question.model,
            hp=question.hp,
            trunk=trunk,
            placement=placed,
            elsewhere=elsewhere,
            workload=question.workload,
        ))  # fmt: skip
    return _model(draft, draft.model, choice, placed)


def _layers(layers: DraftLayers) -> DraftWork:
    """Draft layers: one of them and the head for every token, then all of them over what was verified.

    Several layers propose one token each.
    """
    heads = layers.hp.n_layer_nextn
    every = layers.work(heads, with_head=False)
    passes = (
        DraftPass(what="the draft layer proposes a token", work=layers.work(1, with_head=True), per_token=True),
        DraftPass(what="the draft layers follow the verified tokens", work=every, per_token=False),
    )
    return DraftWork(drafting=Drafting(passes=passes, most_tokens=heads if heads > 1 else None), prompt=every)


def _model(draft: Draft, model: Model, choice: Choice, placed: Placement) -> DraftWork:
    """A draft model: token by token, or a block at once; and once over what was verified.

    One that shares its target's cache has nothing to follow (gemma4-assistant).
    """
    question, hp = choice.question, read_hparams(model)
    work = model_work(placed, question.workload)
    if draft.spec_type == "draft-mtp" and hp.n_layer_nextn:
        return _layers(DraftLayers(
            model=model, hp=hp, trunk=work, placement=placed, elsewhere={}, workload=question.workload
        ))  # fmt: skip
    if not {"output.weight", "token_embd.weight"} & model.tensor_by_name.keys():
        work = _with_borrowed_head(work, question.model)
    proposes = DraftPass(
        what="the draft proposes a block" if draft.spec_type in _AT_ONCE else "the draft proposes a token",
        work=work,
        per_token=draft.spec_type not in _AT_ONCE,
    )
    if not placed.host.kv_bytes and not any(card.kv_bytes for card in placed.devices):
        return DraftWork(drafting=Drafting(passes=(proposes,)), prompt=None)
    follows = DraftPass(what="the draft follows the verified tokens", work=work, per_token=False)
    return DraftWork(drafting=Drafting(passes=(proposes, follows)), prompt=work)


def _with_borrowed_head(work: Work, target: Model) -> Work:
    """A draft without embeddings of its own multiplies with its target's output matrix, taken to lie where it ends.

    Source: src/models/eagle3.cpp:296-325 (llama.cpp in llama-cpp-python 0.3.36).
    """
    names = target.tensor_by_name
    head = names.get("output.weight") or names.get("token_embd.weight")
    if head is None:
        return work
    parts = [*work.cards, work.host]
    last = max((index for index, part in enumerate(work.cards) if part.dense_bytes), default=len(work.cards))
    parts[last] = replace(
        parts[last], dense_bytes=parts[last].dense_bytes + head.size_bytes, kernels=parts[last].kernels + 1
    )
    return replace(work, cards=tuple(parts[:-1]), host=parts[-1])
