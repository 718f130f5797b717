"""What drafts make cards do, from where their weights lie."""

from typing import Any

import pytest

from service.core.engines.llamacpp.companions import Companions, Draft
from service.core.engines.llamacpp.drafting import DraftWork, draft_work
from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.work import work_of
from service.core.types import Rig, Workload
from service.planning.catalogues import BuiltinCatalogues
from tests.models import load_model

MTP = "qwen3.6-27b-mtp:Q4_K_M"
HEAD_BYTES = 1_042_944_000
# eh_proj, attention and feed-forward network of block 64
LAYER_BYTES = 29_491_200 + 35_389_440 + 2_949_120 + 4_300_800 + 17_694_720 + 50_135_040 + 73_113_600 + 50_135_040
WORKLOAD = Workload(context_tokens=4096, parallel=1, prompt_tokens=1024, cached_tokens=0, output_tokens=256)


def drafted(model: str, draft: Draft, cards: str = "rtx-5090", **settings: Any) -> tuple[Choice, DraftWork]:
    """A choice with a draft, and what that does."""
    question = Question.of(
        load_model(model), Rig(gpus=tuple(BuiltinCatalogues().gpus.gpus(cards))), WORKLOAD, Companions(draft=draft)
    )
    choice = question.placed(LlamaCppSettings(n_gpu_layers="all", **settings), 4096)
    found = draft_work(choice, work_of(choice))
    assert found is not None
    return choice, found


def test_a_draft_layer_reads_itself_and_the_head() -> None:
    """For every token; what follows the verified tokens needs no logits."""
    _, found = drafted(MTP, Draft(spec_type="draft-mtp"))
    proposes, follows = found.drafting.passes
    assert proposes.work.cards[0].dense_bytes == LAYER_BYTES + HEAD_BYTES
    assert follows.work.cards[0].dense_bytes == LAYER_BYTES
    assert (proposes.per_token, follows.per_token) == (True, False)
    assert proposes.work.cards[0].kernels == follows.work.cards[0].kernels + 1
    assert 0 < proposes.work.cards[0].cache_bytes < 4096 * 4096


def test_draft_layers_lie_on_the_last_card_of_a_layer_split() -> None:
    """Where the output is; the others do nothing for drafts."""
    _, found = drafted(MTP, Draft(spec_type="draft-mtp"), "2x rtx-3090")
    first, last = found.drafting.passes[0].work.cards
    assert (first.dense_bytes, last.dense_bytes) == (0, LAYER_BYTES + HEAD_BYTES)


def test_draft_layers_are_cut_like_the_others() -> None:
    """In a tensor split each card has its part, and they meet twice per layer."""
    _, found = drafted(MTP, Draft(spec_type="draft-mtp"), "2x rtx-3090", split_mode="tensor")
    work = found.drafting.passes[0].work
    assert [card.dense_bytes for card in work.cards] == [(LAYER_BYTES + HEAD_BYTES) // 2] * 2
    assert work.exchange.reductions == 2


def test_a_draft_model_reads_all_of_itself() -> None:
    """Its own weights, for every token and once more for those that were verified, and for the prompt."""
    choice, found = drafted(
        "llama-3.3-70b:Q4_K_M", Draft(model=load_model("llama-3.2-1b:Q8_0"), spec_type="draft-simple"), "2x rtx-5090"
    )
    placed = choice.placement.companions[0].placement
    assert placed is not None
    proposes, follows = found.drafting.passes
    read = sum(card.dense_bytes for card in proposes.work.cards)
    assert read == sum(card.weights_bytes for card in placed.devices)
    assert follows.work is proposes.work is found.prompt


def test_what_the_model_itself_does_is_without_its_draft_layers() -> None:
    """They are loaded and not read by a step of the model."""
    choice, _ = drafted(MTP, Draft(spec_type="draft-mtp"))
    loaded = choice.placement.devices[0].weights
    read = work_of(choice).cards[0].dense_bytes
    assert read == pytest.approx(loaded.weights_bytes - loaded.lookup_bytes - LAYER_BYTES, rel=1e-4)


@pytest.mark.parametrize(("model", "layers"), [("step-3.5-flash-mtp:Q4_K_M", 3), (MTP, None)])
def test_several_draft_layers_propose_one_token_each(model: str, layers: int | None) -> None:
    """One layer proposes as many as it is asked for."""
    _, found = drafted(model, Draft(spec_type="draft-mtp", n_max=8), "8x rtx-5090")
    assert found.drafting.most_tokens == layers
