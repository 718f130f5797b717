"""What is left to the host where the cards do not hold everything."""

from dataclasses import replace

from service.core.engines.llamacpp.choices import choose
from service.core.engines.llamacpp.question import Question
from service.core.engines.llamacpp.settings import LlamaCppSettings, OverrideTensor
from service.core.types import Rig, Workload
from tests.models import load_model
from tests.rigs import gpu, rig

MIXTURE, DENSE = "gpt-oss-20b:MXFP4", "llama-3.2-1b:Q4_K_M"
WORKLOAD = Workload(context_tokens=8192)
UNLIKE = rig(
    gpu(gib=5, slug="small", bandwidth_bytes_per_s=400e9), gpu(gib=4, slug="fast", bandwidth_bytes_per_s=900e9)
)


def any_shares_fit(model: str, cards: Rig, settings: LlamaCppSettings) -> bool:
    """Whether any division over two cards fits."""
    question = Question.of(load_model(model), cards, WORKLOAD)
    slots = question.hp.n_layer_all + 1
    offloaded = slots if settings.n_gpu_layers == "all" else settings.n_gpu_layers or 0
    shares = [(float(first), float(offloaded - first)) for first in range(offloaded + 1)]
    divided = (replace(settings, tensor_split=each) for each in shares)
    return any(
        question.hold(each, 8192).fits and question.place(each, 8192).fits for each in divided
    )  # fmt: skip


def test_the_fewest_experts_stay_on_the_host_and_the_rest_is_spread() -> None:
    """One block less does not fit with any shares; the last card does not keep all experts."""
    chosen = choose(load_model(MIXTURE), UNLIKE, LlamaCppSettings(), WORKLOAD)
    moved = chosen.settings.n_cpu_moe
    assert chosen.fits
    assert chosen.settings.n_gpu_layers == "all"
    assert moved is not None
    assert not any_shares_fit(MIXTURE, UNLIKE, replace(chosen.settings, n_cpu_moe=moved - 1))
    experts = [device.weights.expert_bytes for device in chosen.placement.devices]
    assert all(experts)


def test_the_most_layers_of_a_dense_model_are_on_the_cards() -> None:
    """One layer more does not fit with any shares."""
    cards = rig(gpu(gib=0.4, slug="small"), gpu(gib=0.5, slug="large"))
    chosen = choose(load_model(DENSE), cards, LlamaCppSettings(), WORKLOAD)
    layers = chosen.settings.n_gpu_layers
    assert chosen.fits
    assert isinstance(layers, int)
    assert layers > 0
    assert not any_shares_fit(DENSE, cards, replace(chosen.settings, n_gpu_layers=layers + 1))


def test_overrides_that_name_a_card_keep_every_card_in() -> None:
    """A tensor that is sent to a card by hand stays there, and the card is used."""
    pinned = LlamaCppSettings(override_tensor=(OverrideTensor(pattern=r"blk\.3\.ffn_down", buffer_type="CUDA1"),))
    cards = rig(gpu(gib=24, slug="fast", bandwidth_bytes_per_s=900e9), gpu(gib=24, bandwidth_bytes_per_s=100e9))
    chosen = choose(load_model(DENSE), cards, pinned, WORKLOAD)
    assert chosen.fits
    assert chosen.placement.device_order == (0, 1)
