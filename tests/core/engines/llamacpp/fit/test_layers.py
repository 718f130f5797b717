"""Layouts as settings."""

from service.core.engines.llamacpp.fit.arguments import fit_arguments
from service.core.engines.llamacpp.fit.layers import DeviceLayers, Layout, settings_of
from service.core.engines.llamacpp.fit.question import FitQuestion, fit_question
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.slots import CPU
from service.core.types import Workload
from tests.models import load_model
from tests.rigs import gpu, rig

EXPERTS = r"ffn_(up|down|gate_up|gate)_(ch|)exps"


def asked(n_devices: int, **settings: object) -> FitQuestion:
    """A question about a mixture of experts of 48 blocks."""
    cards = rig(*(gpu("cuda") for _ in range(n_devices)))
    return fit_question(
        load_model("qwen3-30b-a3b:Q4_K_M"), cards, LlamaCppSettings(**settings), Workload()  # type: ignore[arg-type]
    )  # fmt: skip


def printed(question: FitQuestion, layout: Layout) -> str:
    return " ".join(fit_arguments(question, settings_of(question, layout), 4096))


def test_partial_layers_are_the_last_of_each_device() -> None:
    """The first of them goes to the next device in part, the others leave their experts on the host."""
    layout = Layout(
        devices=(
            DeviceLayers(n_layer=24, n_part=1, stays="attention"),
            DeviceLayers(n_layer=25, n_part=3, stays="gate"),
        ),
        overflow_to=(1, CPU),
    )
    assert printed(asked(2), layout) == (
        r"-c 4096 -ngl 49 -ts 24,25 -ot blk\.23\.ffn_(gate|up|gate_up|down).*=device1,blk\.46\.ffn_down.*=CPU,"
        rf"blk\.47\.{EXPERTS}=CPU,blk\.48\.{EXPERTS}=CPU"
    )


def test_blocks_are_counted_from_the_end() -> None:
    """With fewer layers on the devices than there are, patterns name the last blocks."""
    layout = Layout(devices=(DeviceLayers(n_layer=3, n_part=2),), overflow_to=(CPU,))
    assert printed(asked(1), layout) == rf"-c 4096 -ngl 3 -ot blk\.47\.{EXPERTS}=CPU,blk\.48\.{EXPERTS}=CPU"


def test_counts_wrap_as_unsigned_numbers_do() -> None:
    """A device that gives up a partial layer it does not have counts as having one full layer and no pattern."""
    emptied = DeviceLayers(n_layer=1, n_part=0).plus(-1, -1)
    assert (emptied.n_layer, emptied.n_part, emptied.n_full) == (0, 2**32 - 1, 1)
    layout = Layout(devices=(DeviceLayers(n_layer=49, n_part=1, stays="up"), emptied), overflow_to=(1, CPU))
    assert printed(asked(2), layout) == r"-c 4096 -ngl 49 -ot blk\.48\.ffn_(gate|gate_up|down).*=device1"


def test_shares_end_with_the_last_device_that_has_layers() -> None:
    """A leading zero is printed, trailing ones are not."""
    empty, full = DeviceLayers(), DeviceLayers(n_layer=9)
    assert printed(asked(3), Layout(devices=(empty, full, empty), overflow_to=(CPU,) * 3)) == "-c 4096 -ngl 9 -ts 0,9"
    assert printed(asked(3), Layout(devices=(full, empty, empty), overflow_to=(CPU,) * 3)) == "-c 4096 -ngl 9"


def test_what_the_user_fixed_is_printed_as_llamacpp_reads_it() -> None:
    """Words become numbers, and --n-cpu-moe the patterns it stands for."""
    question = asked(1, n_gpu_layers="all", n_cpu_moe=1)
    assert " ".join(fit_arguments(question, question.settings, 512)) == (
        r"-c 512 -ngl -2 -ot blk\.0\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU"
    )
