"""Command lines that run and measure a plan."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.llamacpp.command import CommandLine, command_of
from service.core.engines.llamacpp.companions import ALONE, Companions, Draft, Projector
from service.core.engines.llamacpp.settings import LlamaCppSettings, OverrideTensor
from service.core.types import Gpu, Workload
from tests.models import load_model
from tests.rigs import gpu, rig

FLAGS = json.loads((Path(__file__).parent / "llamacpp_flags.json").read_text())
MODEL = load_model("llama-3.3-70b:Q4_K_M")
LAYERS = LlamaCppSettings(split_mode="layer", n_gpu_layers="all")
DRAFT_FLAGS = ("--spec-type", "--spec-draft-n-max", "-ngld", "-ctkd", "-ctvd", "-otd", "-ncmoed")
WORKLOAD = Workload(context_tokens=16384, parallel=2)


def command(*cards: Gpu, workload: Workload = WORKLOAD, companions: Companions = ALONE, **settings: Any) -> CommandLine:
    """The command of a plan."""
    return command_of(MODEL, rig(*cards), replace(LAYERS, **settings), workload, companions)


def flags_of(argv: list[str], tool: str) -> dict[str, str | None]:
    """Flags with their values, each known to the tool and given once."""
    known = {name: flag["value"] for flag in FLAGS[tool] for name in flag["names"]}
    found: dict[str, str | None] = {}
    position = 1
    while position < len(argv):
        name = argv[position]
        assert name in known, name
        assert name not in found, name
        takes_value = known[name] is not None
        found[name] = argv[position + 1] if takes_value else None
        position += 2 if takes_value else 1
    return found


def test_what_must_not_be_left_to_llamacpp_is_given() -> None:
    """Context, streams, layers and --fit are always said; defaults are not."""
    flags = flags_of(list(command(gpu(), gpu()).argv), "llama-server")
    assert flags.pop("-m", "") is not None
    assert flags == {"-c": "16384", "-np": "2", "-ngl": "all", "-fit": "off"}


def test_every_setting_has_its_flag() -> None:
    """Everything that differs from a default is given, spelled as llama-server spells it."""
    flags = flags_of(
        list(
            command(
                gpu(),
                gpu(),
                tensor_split=(3.0, 0.5),
                n_gpu_layers=40,
                n_batch=1024,
                n_ubatch=256,
                flash_attn=True,
                cache_type_k="q8_0",
                cache_type_v="q4_0",
                kv_unified=True,
                swa_full=True,
                kv_offload=False,
                n_cpu_moe=500,
                override_tensor=(
                    OverrideTensor(pattern="a", buffer_type="CPU"),
                    OverrideTensor(pattern=r"b\.", buffer_type="CUDA1"),
                ),
            ).argv
        ),
        "llama-server",
    )
    assert flags == {
        "-m": flags["-m"],
        "-c": "16384",
        "-np": "2",
        "-kvu": None,
        "-ngl": "40",
        "-ts": "3,0.5",
        "-b": "1024",
        "-ub": "256",
        "-fa": "on",
        "-ctk": "q8_0",
        "-ctv": "q4_0",
        "--swa-full": None,
        "-nkvo": None,
        "-ot": r"a=CPU,b\.=CUDA1",
        "-ncmoe": "80",
        "-fit": "off",
    }


def test_a_draft_model_has_its_flags() -> None:
    """The draft's file, kind, tokens per step and own settings, with -ngld whatever they are."""
    draft = Draft(
        spec_type="draft-simple",
        model=load_model("llama-3.2-1b:Q8_0"),
        n_max=5,
        settings=LlamaCppSettings(
            n_gpu_layers=7,
            cache_type_k="q8_0",
            cache_type_v="q4_0",
            n_cpu_moe=500,
            override_tensor=(OverrideTensor(pattern=r"blk\.1\.", buffer_type="CPU"),),
        ),
    )
    flags = flags_of(list(command(gpu(), companions=Companions(draft=draft)).argv), "llama-server")
    assert flags["-md"] == "llama-3.2-1b-Q8_0.gguf"
    assert {name: flags[name] for name in DRAFT_FLAGS if name in flags} == {
        "--spec-type": "draft-simple",
        "--spec-draft-n-max": "5",
        "-ngld": "7",
        "-ctkd": "q8_0",
        "-ctvd": "q4_0",
        "-otd": r"blk\.1\.=CPU",
        "-ncmoed": "16",
    }


def test_own_draft_layers_are_only_named() -> None:
    """They lie where the model lies, so that no flag places them; llama-bench measures the model without them."""
    own = command(gpu(), companions=Companions(draft=Draft(spec_type="draft-mtp")))
    flags = flags_of(list(own.argv), "llama-server")
    given = {name: flags[name] for name in ("-md", *DRAFT_FLAGS) if name in flags}
    assert given == {"--spec-type": "draft-mtp", "--spec-draft-n-max": "3"}
    assert own.verify == command(gpu()).verify


def test_a_draft_on_the_host_alone_has_no_layers_to_offload() -> None:
    """Without cards -ngld is not said."""
    draft = Draft(spec_type="draft-simple", model=load_model("llama-3.2-1b:Q8_0"))
    assert "-ngld" not in command(companions=Companions(draft=draft)).argv
    assert "all" in command(gpu(), companions=Companions(draft=draft)).argv[-1:]


@pytest.mark.parametrize("on_host", [False, True])
def test_a_projector_has_its_file_and_its_place(*, on_host: bool) -> None:
    """--mmproj names the file, and --no-mmproj-offload keeps it on the host."""
    companions = Companions(projector=Projector(weights_bytes=10**9, on_host=on_host))
    flags = flags_of(list(command(gpu(), companions=companions).argv), "llama-server")
    assert flags["--mmproj"] == "mmproj.gguf"
    assert ("--no-mmproj-offload" in flags) is on_host
    of_file = Companions(projector=Projector(model=MODEL))
    assert command(gpu(), companions=of_file).argv[-1] == "mmproj-llama-3.3-70b-Q4_K_M.gguf"


def test_llama_bench_separates_lists_otherwise() -> None:
    """Shares are divided by slashes, overrides by semicolons, depths by commas; all layers are the default."""
    measured = command(
        gpu(),
        gpu(),
        tensor_split=(3.0, 1.0),
        flash_attn=False,
        kv_offload=False,
        override_tensor=(
            OverrideTensor(pattern="a", buffer_type="CPU"),
            OverrideTensor(pattern="b", buffer_type="CUDA1"),
        ),
        workload=replace(WORKLOAD, cached_tokens=512),
    ).verify
    flags = flags_of(shlex.split(measured), "llama-bench")
    assert flags == {
        "-m": flags["-m"],
        "-p": "1024",
        "-n": "256",
        "-d": "512,1536",
        "-ts": "3/1",
        "-fa": "off",
        "-nkvo": "1",
        "-ot": "a=CPU;b=CUDA1",
        "-o": "json",
    }


def test_a_measurement_stays_within_the_context() -> None:
    """Where a prompt behind the prompt would not fit, only the first depth is measured."""
    tight = Workload(context_tokens=4096, prompt_tokens=3000, output_tokens=256)
    assert " -d " not in command(gpu(), workload=tight).verify


def test_a_plan_for_llama_bench_runs_llama_bench() -> None:
    """The tool of the request is the program of the command."""
    assert command(gpu(), tool="llama-bench").argv[0] == "llama-bench"


def test_split_mode_none_names_its_card() -> None:
    """-sm none with the card's index; a plan on the host alone says -1."""
    flags = flags_of(list(command(gpu(), gpu(), split_mode="none", main_gpu=1).argv), "llama-server")
    assert (flags["-sm"], flags["-mg"]) == ("none", "1")


def test_listed_cards_are_named_as_llamacpp_names_them() -> None:
    """In their order, for the server and, since it takes them, for llama-bench."""
    three = (gpu("rpc"), gpu("cuda", 24), gpu("cuda", 12))
    listed = command(*three, devices=(2, 0))
    assert flags_of(list(listed.argv), "llama-server")["-dev"] == "CUDA1,RPC0"
    assert " -dev CUDA1/RPC0 " in listed.verify
    assert "-dev" not in command(*three, devices=(2, 0), date="2025-01").verify


def test_a_rig_without_cards_has_no_layers_to_offload() -> None:
    """On the host alone -ngl is not said."""
    assert "-ngl" not in command().argv


def test_older_builds_are_addressed_in_their_language() -> None:
    """Before -fa took a value and -ngl words, and before --fit and --kv-unified existed, neither is used."""
    old = command(gpu(), flash_attn=True, kv_unified=True, date="2025-06").argv
    assert old[old.index("-ngl") + 1] == "999"
    assert "-fa" in old
    assert "on" not in old
    assert "-fit" not in old
    assert "-kvu" not in old
    assert "-fa" not in command(gpu(), flash_attn=False, date="2025-06").argv


def test_servers_are_given_by_placeholder() -> None:
    """RPC servers have addresses the request does not say; overrides to them follow."""
    override = (OverrideTensor(pattern="a", buffer_type="RPC1"),)
    flags = flags_of(list(command(gpu("rpc"), gpu("rpc"), override_tensor=override).argv), "llama-server")
    assert flags["--rpc"] == "rpc-server-0:50052,rpc-server-1:50052"
    assert flags["-ot"] == "a=RPC0[rpc-server-1:50052]"


def test_unlike_cuda_cards_are_numbered_by_bus() -> None:
    """CUDA numbers unlike cards fastest first unless told to follow the bus; like cards need no variable."""
    mixed = command(gpu("cuda", 24), gpu("cuda", 12))
    assert mixed.env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert mixed.text.startswith("CUDA_DEVICE_ORDER=PCI_BUS_ID llama-server ")
    assert command(gpu(), gpu()).env == {}


@pytest.mark.parametrize("name", ["llama-3.3-70b", None, "Llama 3.3 / 70B; rm -rf", "-"])
def test_file_names_are_harmless(name: str | None) -> None:
    """Whatever a file calls itself, its name is one plain word that does not look like a flag."""
    named = replace(MODEL, name=name)
    path = command_of(named, rig(gpu()), LAYERS, WORKLOAD).argv[2]
    assert path.endswith(".gguf")
    assert shlex.quote(path) == path
    assert not path.startswith("-")


@given(pattern=st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20))
def test_the_line_for_a_shell_is_the_arguments(pattern: str) -> None:
    """Whatever a pattern contains, a shell reads back the very arguments."""
    override = (OverrideTensor(pattern=pattern, buffer_type="CPU"),)
    given_command = command(gpu(), override_tensor=override)
    assert tuple(shlex.split(given_command.text)) == given_command.argv


def test_a_share_that_no_float_holds_is_none() -> None:
    """llama.cpp refuses a share below the smallest float, which divides as zero does."""
    flags = flags_of(list(command(gpu(), gpu(), tensor_split=(1e-300, 1.0)).argv), "llama-server")
    assert flags["-ts"] == "0,1"


def test_a_shell_reads_the_words_of_a_command_as_they_are_meant() -> None:
    """Whether a flag's text was quoted or needs no quotes."""
    given_command = command(
        gpu(), gpu(), tensor_split=(0.5, 1.25), override_tensor=(OverrideTensor(pattern="a b|'c'", buffer_type="CPU"),)
    )
    assert tuple(shlex.split(given_command.text)) == given_command.argv
    assert [word for run in given_command.runs for word in run.words] == list(given_command.argv[1:])
    assert all(shlex.join(run.words) == run.text for run in given_command.runs)
