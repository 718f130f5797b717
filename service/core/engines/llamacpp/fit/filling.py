"""Steps 3 and 4 of the fit: layers from the last device to the first, then experts from the first to the last."""

from dataclasses import replace

from service.core.engines.llamacpp.buffer_types import HOST_BUFFER_TYPE
from service.core.engines.llamacpp.fit.layers import (
    ALL_EXPERTS_PATTERN,
    DeviceLayers,
    Fraction,
    Layout,
    empty_layout,
)
from service.core.engines.llamacpp.fit.question import FitQuestion
from service.core.engines.llamacpp.fit.trial import Trial, Trials
from service.core.engines.llamacpp.settings import OverrideTensor


def filled(question: FitQuestion, context_tokens: int, surplus_bytes: int | None) -> Layout:
    """Layers of every device; surplus_bytes: what is left with all experts on the host, None for dense models.

    Source: common/fit.cpp:459-905 (llama.cpp in llama-cpp-python 0.3.36).
    """
    trials = Trials(question=question, context_tokens=context_tokens)
    trial = trials.of(empty_layout(len(question.devices)))
    for device in reversed(range(len(question.devices))):
        trial = _filled_device(trials, trial, device)
    if surplus_bytes is None or surplus_bytes <= 0:
        return trial.layout
    return _with_experts(trials, trial)


def surplus_without_experts(question: FitQuestion, context_tokens: int) -> int | None:
    """Bytes left over on all devices together with every expert on the host; None for a model without experts.

    Source: common/fit.cpp:619-649.
    """
    if not question.hp.n_expert:
        return None
    experts = OverrideTensor(pattern=ALL_EXPERTS_PATTERN, buffer_type=HOST_BUFFER_TYPE)
    settings = replace(question.settings, override_tensor=(experts,))
    measured = question.measure(settings, context_tokens)
    return sum(question.targets_bytes) - sum(measured.device_bytes)


def _filled_device(trials: Trials, trial: Trial, device: int) -> Trial:
    """As many of the layers left as the device takes, of a mixture of experts without its experts.

    The output layer, which is the last device's first, is always full.
    Source: common/fit.cpp:673-735.
    """
    question = trials.question
    last, parted = device == len(question.devices) - 1, question.hp.n_expert > 0

    def more(layout: Layout, n: int) -> Layout:
        held = layout.devices[device]
        n_part = 0 if not parted else n - 1 if last and held.n_part == 0 else n
        return layout.with_device(device, held.plus(n, n_part))

    unassigned = question.n_layer + 1 - sum(layers.n_layer for layers in trial.layout.devices[device + 1 :])
    if unassigned <= 0:
        return trial
    high = trials.of(more(trial.layout, unassigned))
    if high.device_bytes[device] <= question.targets_bytes[device]:
        return high
    return trials.fullest(device, trial, high, more, lambda layout: layout.devices[device].n_layer)


def _with_experts(trials: Trials, trial: Trial) -> Layout:
    """Turn layers without experts at the end into full ones at the front, until every device is full.

    Source: common/fit.cpp:738-905.
    """
    n_devices = len(trials.question.devices)
    empty = [device for device, layers in enumerate(trial.layout.devices) if layers.n_layer == 0]
    trial = replace(trial, layout=replace(trial.layout, dense_start=max(empty, default=-1) + 1))
    device = 0
    while device <= trial.layout.dense_start < n_devices:
        trial = _one_more_part(trials, _converted(trials, trial, device), device)
        device += 1
    return trial.layout


def _converted(trials: Trials, trial: Trial, device: int) -> Trial:
    """As many full layers on the device as it takes. Source: common/fit.cpp:753-808."""
    high = trials.of(_all_full(trial.layout, device))
    if high.device_bytes[device] <= trials.question.targets_bytes[device]:
        return high
    return trials.fullest(
        device,
        trial,
        high,
        lambda layout, n: _some_full(layout, device, n),
        lambda layout: layout.devices[device].n_full,
    )


def _all_full(layout: Layout, device: int) -> Layout:
    """All layers without experts on one device in full; the last device keeps the output layer."""
    last = len(layout.devices) - 1
    for other in range(layout.dense_start, last + 1):
        moved = layout.devices[other].n_layer - (1 if other == last else 0)
        layout = layout.with_device(device, layout.devices[device].plus(moved, 0))
        held = layout.devices[other].plus(-moved, 0)
        layout = layout.with_device(other, replace(held, n_part=0))
    return replace(layout, dense_start=last)


def _some_full(layout: Layout, device: int, n: int) -> Layout:
    """`n` layers without experts turned into full ones of the device, from the first that has any."""
    start = layout.dense_start
    while start < len(layout.devices):
        moved = min(n, layout.devices[start].n_part)
        layout = layout.with_device(start, layout.devices[start].plus(-moved, -moved))
        layout = layout.with_device(device, layout.devices[device].plus(moved, 0))
        n -= moved
        if layout.devices[start].n_part > 0:
            break
        start += 1
    return replace(layout, dense_start=start)


def _one_more_part(trials: Trials, trial: Trial, device: int) -> Trial:
    """Try to take part of one more layer: its attention and up projection, then more of it, else less.

    What does not stay goes to the next device, of the last one to the host.
    Source: common/fit.cpp:810-880.
    """
    layout, last = trial.layout, len(trials.question.devices) - 1
    if layout.devices[layout.dense_start].n_layer <= (0 if device < last else 1):
        return trial
    moved = _one_moved(layout, device, device + 1 if device < last else None)
    with_up = _accepted(trials, moved, device, "up")
    if with_up is None:
        return _accepted(trials, moved, device, "attention") or trial
    return _accepted(trials, moved, device, "gate") or with_up


def _one_moved(layout: Layout, device: int, overflow_to: int | None) -> Layout:
    start = layout.dense_start
    layout = layout.with_device(start, layout.devices[start].plus(-1, -1))
    layout = layout.with_device(device, layout.devices[device].plus(1, 1))
    if layout.devices[start].n_part == 0:
        layout = replace(layout, dense_start=start + 1)
    if overflow_to is None:
        return layout
    targets = (*layout.overflow_to[:device], overflow_to, *layout.overflow_to[device + 1 :])
    return replace(layout, overflow_to=targets)


def _accepted(trials: Trials, layout: Layout, device: int, stays: Fraction) -> Trial | None:
    """The layout with `stays` of the device's partial layer, if it and the next device stay below their targets."""
    layers: DeviceLayers = replace(layout.devices[device], stays=stays)
    trial = trials.of(layout.with_device(device, layers))
    targets = trials.question.targets_bytes
    below = all(trial.device_bytes[each] < targets[each] for each in range(device, min(device + 2, len(targets))))
    return trial if below else None
