"""Steps 1 and 2 of the fit: is anything to be done, and does a shorter context do it."""

from dataclasses import dataclass

from service.core.engines.llamacpp.fit.question import FitQuestion, Measurement
from service.core.problems import Unsupported

# tensors that go unused on average, as parts of a layer: half of it, or of the third that one of its matrices makes up
_DENSE_WASTE, _EXPERT_WASTE = 2, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedContext:
    """What the context comes to.

    context_tokens: of all streams. full: what the parameters of the start need, at the context of the start.
    start_tokens: that context. done: whether the model fits so, everything else left as it was.
    """

    context_tokens: int
    start_tokens: int
    full: Measurement
    done: bool


def fitted_context(question: FitQuestion) -> FittedContext:
    """Leave the context where everything fits; else, if the user left it open, reduce it.

    Source: common/fit.cpp:262-455 (llama.cpp in llama-cpp-python 0.3.36).
    """
    asked = question.workload.context_tokens
    start = question.largest_context if asked is None else asked
    full = question.measure(question.settings, start)
    spare = [target - used for target, used in zip(question.targets_bytes, question.used_bytes(full), strict=True)]
    tokens, done = start, all(bytes_left >= 0 for bytes_left in spare)
    if not done and sum(spare) < 0 and asked is None and question.largest_context > question.least_context:
        tokens, done = _reduced(question, full)
    return FittedContext(context_tokens=tokens, start_tokens=start, full=full, done=done)


def _reduced(question: FitQuestion, full: Measurement) -> tuple[int, bool]:
    """A context on the line between the least and the trained one, and whether that is all there is to do.

    Source: common/fit.cpp:382-446.
    """
    target = sum(question.targets_bytes) - _expected_waste(question, full)
    largest, least = question.largest_context, question.least_context
    used = sum(question.used_bytes(full))
    used_at_least = sum(question.used_bytes(question.measure(question.settings, least)))
    if target <= used_at_least:
        return least, False
    tokens = least + (largest - least) * (target - used_at_least) // (used - used_at_least)
    tokens -= tokens % (256 * question.n_streams)
    return max(tokens, least), len(question.devices) <= 1


def _expected_waste(question: FitQuestion, full: Measurement) -> int:
    """Bytes that will go unused because several devices take whole layers, or whole tensors of a layer.

    Raises Unsupported where no layer is to be on a device, by whose number llama.cpp divides.
    """
    n_devices, asked = len(question.devices), question.settings.n_gpu_layers
    if n_devices <= 1:
        return 0
    layers = min(asked, question.n_layer) if isinstance(asked, int) and asked >= 0 else question.n_layer
    if layers == 0:
        raise Unsupported(
            "llama.cpp's --fit divides by the number of layers on the cards and stops at -ngl 0: leave n_gpu_layers or "
            "engine.fit null",
            fields=("engine.fit", "engine.n_gpu_layers"),
        )
    per_layer = full.weights_bytes // layers
    return (n_devices + 1) * per_layer // (_EXPERT_WASTE if question.hp.n_expert else _DENSE_WASTE)
