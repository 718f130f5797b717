"""Where drafts and projectors beside a model go."""

from dataclasses import replace

import pytest

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.companion_placement import place_with, projector_card
from service.core.engines.llamacpp.companions import Companions, Draft, Projector
from service.core.engines.llamacpp.devices import engine_devices
from service.core.engines.llamacpp.kv_cache import kv_index
from service.core.engines.llamacpp.placement import place
from service.core.engines.llamacpp.placement_inputs import ModelUse
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.problems import InvalidRequest, Unsupported
from service.core.types import Workload
from tests.models import load_architecture_model, load_graph_model, load_model
from tests.rigs import gpu, rig

LAYERS = LlamaCppSettings(split_mode="layer", n_gpu_layers="all")
WORKLOAD = Workload(context_tokens=8192)
TARGET = load_model("llama-3.3-70b:Q4_K_M")
SMALL = load_model("llama-3.2-1b:Q4_K_M")
WITH_DRAFT_LAYERS = load_model("glm-4.5-air:Q4_K_M")
OWN_LAYERS = Draft(spec_type="draft-mtp")
HYBRID = load_model("qwen3.5-122b-a10b-mtp:Q4_K_M")


def test_without_companions_nothing_is_added() -> None:
    """Nothing beside the model is the model alone."""
    cards = rig(gpu(), gpu())
    assert place_with(TARGET, cards, LAYERS, WORKLOAD, Companions()) == place(TARGET, cards, LAYERS, WORKLOAD)


def test_a_draft_model_is_placed_with_the_targets_context_on_what_the_target_leaves() -> None:
    """Its weights, caches and scratch come on top; a full first card sends more of it to the second."""
    cards = rig(gpu("cuda", 48), gpu("cuda", 48))
    beside = place_with(TARGET, cards, LAYERS, WORKLOAD, Companions(draft=Draft(spec_type="draft-simple", model=SMALL)))
    alone = place(SMALL, cards, LAYERS, WORKLOAD)
    weights_and_caches = sum(device.weights_bytes + device.kv_bytes for device in alone.devices)
    added = sum(device.companion_bytes for device in beside.devices)
    assert added > weights_and_caches
    assert added < weights_and_caches + sum(device.compute_bytes for device in alone.devices) * 2
    first, second = place(TARGET, cards, LAYERS, WORKLOAD).devices
    assert [device.weights_bytes for device in beside.devices] == [first.weights_bytes, second.weights_bytes]


def test_a_draft_may_keep_its_own_layers_on_the_host() -> None:
    """The draft's own -ngl 0 leaves the cards to the target."""
    draft = Draft(spec_type="draft-simple", model=SMALL, settings=LlamaCppSettings(n_gpu_layers=0))
    beside = place_with(TARGET, rig(gpu("cuda", 80)), LAYERS, WORKLOAD, Companions(draft=draft))
    assert beside.host.companion_bytes > sum(tensor.size_bytes for tensor in SMALL.tensors)


def test_a_draft_model_is_refused_in_its_own_name() -> None:
    """What llama.cpp refuses about the draft is not laid at the model's door."""
    draft = Draft(spec_type="draft-simple", model=SMALL, settings=LlamaCppSettings(cache_type_v="q9"))
    with pytest.raises(InvalidRequest, match="q9") as refused:
        place_with(TARGET, rig(gpu("cuda", 80)), LAYERS, WORKLOAD, Companions(draft=draft))
    assert refused.value.fields == ("engine.draft",)


def test_caches_of_a_draft_have_their_own_types() -> None:
    """The target's types are not the draft's: -ctk is not -ctkd, for draft layers neither."""
    cards = rig(gpu("rpc", 96))
    smaller = replace(LAYERS, cache_type_k="q8_0", cache_type_v="q8_0")
    own = LlamaCppSettings(cache_type_k="q8_0", cache_type_v="q8_0")
    for model, draft in (
        (TARGET, Draft(spec_type="draft-simple", model=SMALL)),
        (WITH_DRAFT_LAYERS, OWN_LAYERS),
    ):
        kept, shrunk = (
            place_with(model, cards, smaller, WORKLOAD, Companions(draft=each)).companions[0].devices[0].kv_bytes
            for each in (draft, replace(draft, settings=own))
        )
        assert shrunk == kept * 34 // 64


def test_the_target_keeps_hidden_states_for_a_draft_that_reads_them() -> None:
    """EAGLE-3 reads the input of three blocks: each stays on the card that made it, a float per value and token."""
    eagle = load_graph_model("eagle3")
    target = load_architecture_model("qwen3-dense")
    cards = rig(gpu("rpc", 96))
    alone = place(eagle, cards, LAYERS, WORKLOAD, use=ModelUse(role="draft"))
    beside = place_with(target, cards, LAYERS, WORKLOAD, Companions(draft=Draft(spec_type="draft-eagle3", model=eagle)))
    states = 4 * read_hparams(target).n_embd * 512
    layers = eagle.metadata["eagle3.target_layers"]
    assert isinstance(layers, tuple)
    read = [layer for layer in layers if isinstance(layer, int) and layer <= read_hparams(target).n_layer]
    assert read
    assert beside.companions[0].devices[0].compute_bytes == alone.devices[0].compute_bytes + len(read) * states


def test_draft_layers_of_another_file_are_placed_whole() -> None:
    """A file of draft layers has weights of its own, and the model loads its own as well."""
    cards = rig(gpu("rpc", 192))
    own = place_with(WITH_DRAFT_LAYERS, cards, LAYERS, WORKLOAD, Companions(draft=OWN_LAYERS))
    other = replace(OWN_LAYERS, model=WITH_DRAFT_LAYERS)
    beside = place_with(WITH_DRAFT_LAYERS, cards, LAYERS, WORKLOAD, Companions(draft=other))
    assert beside.devices[0].weights_bytes == own.devices[0].weights_bytes
    assert beside.companions[0].devices[0].weights.weights_bytes == own.devices[0].weights_bytes
    assert beside.companions[0].devices[0].kv_bytes == own.companions[0].devices[0].kv_bytes


def test_own_draft_layers_are_loaded_and_cached() -> None:
    """MTP loads the trailing block and gives it a cache of its own."""
    cards = rig(gpu("rpc", 96))
    alone = place(WITH_DRAFT_LAYERS, cards, LAYERS, WORKLOAD)
    beside = place_with(WITH_DRAFT_LAYERS, cards, LAYERS, WORKLOAD, Companions(draft=OWN_LAYERS))
    hp = read_hparams(WITH_DRAFT_LAYERS)
    draft_block = [t for t in WITH_DRAFT_LAYERS.tensors if t.name.startswith(f"blk.{hp.n_layer}.")]
    grown = beside.devices[0].weights_bytes - alone.devices[0].weights_bytes
    assert 0 <= grown - sum(tensor.size_bytes for tensor in draft_block) < 32 * len(draft_block)
    assert beside.devices[0].kv_bytes == alone.devices[0].kv_bytes
    (drafts,) = beside.companions
    assert drafts.devices[0].kv_bytes == 2 * hp.n_embd_k_gqa(hp.n_layer) * 2 * 8192
    assert 0 < drafts.devices[0].compute_bytes < 2 * beside.devices[0].compute_bytes
    assert beside.devices[0].companion_bytes == drafts.devices[0].total_bytes


def test_the_target_keeps_snapshots_only_for_drafts_that_read_its_states() -> None:
    """Recurrent state is kept 1 + n times for MTP, once for an ordinary draft model."""
    cards, hp = rig(gpu("rpc", 96)), read_hparams(HYBRID)

    def state_bytes(use: ModelUse) -> int:
        groups = kv_index(hp, place(HYBRID, cards, LAYERS, WORKLOAD, use=use).ctx).groups
        return sum(g.bytes_between(0, hp.n_layer_all, "rpc") for g in groups if g.layout.kind == "recurrent")

    once = state_bytes(ModelUse())
    assert state_bytes(ModelUse(n_draft=3)) == once
    assert state_bytes(ModelUse(n_draft=3, keeps_snapshots=True, load_mtp=True)) == 4 * once


def test_a_model_without_draft_layers_cannot_draft_for_itself() -> None:
    """MTP of a model that has none is refused."""
    with pytest.raises(Unsupported, match="draft"):
        place_with(TARGET, rig(gpu("cuda", 80)), LAYERS, WORKLOAD, Companions(draft=OWN_LAYERS))


def test_a_projector_lies_whole_on_one_card_or_on_the_host() -> None:
    """Its weights go to the first discrete local card, with --no-mmproj-offload to main memory."""
    cards = rig(gpu("rpc", 96), gpu("cuda", 48))
    beside = place_with(TARGET, cards, LAYERS, WORKLOAD, Companions(projector=Projector(model=SMALL)))
    size_bytes = sum(tensor.size_bytes for tensor in SMALL.tensors)
    assert beside.devices[0].companion_bytes == 0
    assert beside.devices[1].companion_bytes >= size_bytes
    on_host = place_with(TARGET, cards, LAYERS, WORKLOAD, Companions(projector=Projector(model=SMALL, on_host=True)))
    assert on_host.host.companion_bytes >= size_bytes
    assert on_host.host.total_bytes - replace(on_host.host, companion_bytes=0).total_bytes >= size_bytes


def test_a_projector_takes_an_integrated_card_where_there_is_no_other() -> None:
    """Discrete before integrated, local before remote, none without cards."""
    cards = engine_devices(rig(gpu("vulkan", integrated=True), gpu("rpc"), gpu("vulkan")))
    card = projector_card(cards)
    assert card is not None
    assert card.position == 2
    assert projector_card(()) is None
