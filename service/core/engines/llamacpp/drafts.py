"""Kinds of speculation that need a draft: which one a file is made for, and what it must share with its target."""

from typing import Final, get_args

from service.core.architectures.architecture import SpecType
from service.core.architectures.hparams import Hparams, read_hparams
from service.core.problems import Contradiction, InvalidRequest
from service.core.types import Model

SPEC_TYPES: Final[tuple[SpecType, ...]] = get_args(SpecType)
"""Values of --spec-type that need a draft. Source: common/speculative.cpp:33-45 (llama.cpp in llama-cpp-python
0.3.36)."""

OWN_DRAFT_LAYERS: Final[SpecType] = "draft-mtp"
"""The one that a model can do with layers of its own."""

MAX_VOCABULARY_DIFFERENCE: Final = 128
"""Tokens by which the vocabularies of a model and its draft may differ (SPEC_VOCAB_MAX_SIZE_DIFFERENCE)."""

FIELD: Final = "engine.draft"


def spec_type_of(model: Model) -> SpecType:
    """What a file drafts as where nothing is said: as its architecture or its tensors tell, else as an ordinary model.

    llama.cpp reads this from files of MTP layers, DFlash and DSpark; EAGLE-3 and Gemma's assistants must be named.
    Source: common_speculative_types_from_gguf, common/speculative.cpp:2262-2298; docs/speculative.md
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    hp = read_hparams(model)
    if hp.arch.drafts_as == "draft-dflash" and "markov_w1.weight" in model.tensor_by_name:
        return "draft-dspark"
    if hp.arch.drafts_as is not None:
        return hp.arch.drafts_as
    last_block = f"blk.{hp.n_layer_all - 1}.nextn.eh_proj.weight"
    return "draft-mtp" if last_block in model.tensor_by_name else "draft-simple"


def resolve_spec_type(asked: SpecType | None, draft: Model | None) -> SpecType:
    """The kind of speculation; `draft` is the draft model, None for the model's own layers.

    Raises InvalidRequest where there is nothing to draft with, Contradiction where the file drafts otherwise.
    """
    if draft is None:
        if asked is None:
            raise InvalidRequest(
                f"{FIELD} names neither a model nor the model's own draft layers: give engine.draft.model, or "
                f"engine.draft.spec_type {OWN_DRAFT_LAYERS}",
                fields=(FIELD,),
            )
        if asked != OWN_DRAFT_LAYERS:
            raise Contradiction(
                f"speculation as {asked} needs a draft model: name one in engine.draft.model",
                fields=(f"{FIELD}.spec_type",),
            )
        return asked
    found = spec_type_of(draft)
    is_model = read_hparams(draft).arch.drafts_as is None
    if asked in (None, found) or (is_model and asked == "draft-simple"):
        return asked or found
    raise Contradiction(
        f"this {draft.architecture} file drafts as {found}, not as {asked}: leave engine.draft.spec_type null, or name "
        "another file",
        fields=(f"{FIELD}.spec_type",),
    )


def check_shared(target: Hparams, draft: Model, spec_type: SpecType) -> None:
    """Refuse a draft that has other tokens or other widths than its target.

    Raises Contradiction. Source: common_speculative_are_compatible and the constructors of the drafts,
    common/speculative.cpp:67-130, 1356-1361; src/models/eagle3.cpp:17-21 (llama.cpp in llama-cpp-python 0.3.36).
    """
    hp = read_hparams(draft)
    if spec_type == "draft-simple":
        _refuse_unless(
            abs(target.n_vocab - hp.n_vocab) <= MAX_VOCABULARY_DIFFERENCE,
            f"the draft model has {hp.n_vocab:,} tokens and the model {target.n_vocab:,}: name a draft model of the "
            "same family, whose tokens are the same",
        )
    if spec_type == "draft-mtp":
        _refuse_unless(
            hp.n_embd_out == target.n_embd_out,
            f"the draft layers work on hidden states of {hp.n_embd_out:,} values and the model has "
            f"{target.n_embd_out:,}: name the file that was made for this model",
        )
    stated = draft.metadata.get(f"{draft.architecture}.target_hidden_size")
    if isinstance(stated, int) and hp.arch.drafts_as is not None:
        _refuse_unless(
            stated == target.n_embd,
            f"the draft reads hidden states of {stated:,} values and the model has {target.n_embd:,}: name the draft "
            "that was trained for this model",
        )


def _refuse_unless(holds: bool, detail: str) -> None:
    if not holds:
        raise Contradiction(detail, fields=(FIELD,))
