"""Card names as people and drivers write them mean exactly one card, or are refused with what they could mean."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalog.gpu_names import LARGEST_COUNT, LONGEST_NAME, GpuNames, parse_count
from service.catalog.gpu_records import GpuRecord, iter_gpu_records
from service.core.problems import InvalidRequest, UnknownGpu
from service.core.units import GIB

RECORDS = tuple(iter_gpu_records())
NAMES = GpuNames(RECORDS)

EXACT = {
    # people
    "3090": "rtx-3090",
    "3090 Ti": "rtx-3090-ti",
    "3090ti": "rtx-3090-ti",
    "RTX 3090": "rtx-3090",
    "rtx3090": "rtx-3090",
    "RTX_3090": "rtx-3090",
    "GeForce RTX 3090": "rtx-3090",
    "RTX 3090 24GB": "rtx-3090",
    "RTX 3090 Founders Edition": "rtx-3090",
    "4090": "rtx-4090",
    "4090 48GB": "rtx-4090-48gb",
    "4090D": "rtx-4090-d",
    "RTX 5090D 32GB": "rtx-5090-d",
    "5090 D V2": "rtx-5090-d-v2",
    "4060 Ti 16GB": "rtx-4060-ti-16gb",
    "RTX 4060 8GB": "rtx-4060",
    "5060 Ti 16gb": "rtx-5060-ti-16gb",
    "4070tisuper": "rtx-4070-ti-super",
    "RTX 3080": "rtx-3080-10gb",
    "3080 12 GB": "rtx-3080-12gb",
    "2080 Ti": "rtx-2080-ti",
    "2080ti 22g": "rtx-2080-ti-22gb",
    "1080 ti": "gtx-1080-ti",
    "3060 mobile": "rtx-3060-laptop",
    "RTX 3060 Laptop (6 GB)": "rtx-3060-laptop",
    "RTX 5090 Laptop 24GB": "rtx-5090-laptop",
    "Titan RTX": "titan-rtx",
    "A6000": "rtx-a6000",
    "RTX 6000 Ada": "rtx-6000-ada",
    "RTX PRO 6000 Max-Q": "rtx-pro-6000-blackwell-maxq",
    "RTX PRO 5000 72GB": "rtx-pro-5000-72gb-blackwell",
    "RTX PRO 4500": "rtx-pro-4500-blackwell",
    "A100 SXM 80GB": "a100-sxm4-80gb",
    "a100 pcie 40gb": "a100-pcie-40gb",
    "H100 SXM": "h100-sxm5-80gb",
    "h100sxm5": "h100-sxm5-80gb",
    "H100 NVL": "h100-nvl-94gb",
    "H200": "h200-sxm",
    "H200 NVL": "h200-nvl",
    "B200": "b200-sxm",
    "P40": "tesla-p40",
    "T4": "tesla-t4",
    "L40S": "l40s",
    "A40": "a40",
    "V100S": "v100s-pcie-32gb",
    "V100 SXM2 32GB": "v100-sxm2-32gb",
    "7900 XTX": "rx-7900-xtx",
    "7900xt": "rx-7900-xt",
    "9070xt": "rx-9070-xt",
    "MI50 32GB": "mi50-32gb",
    "MI300X": "mi300x",
    "AMD MI100": "mi100",
    "W7900": "radeon-pro-w7900",
    "R9700": "radeon-ai-pro-r9700",
    "B580": "arc-b580",
    "Arc A770": "arc-a770-16gb",
    "Max 1550": "max-1550",
    "M2 Ultra 76-core": "apple-m2-ultra-76",
    "m2 ultra 76": "apple-m2-ultra-76",
    "M4 Max 128GB": "apple-m4-max-40",
    "DGX Spark": "dgx-spark-gb10",
    "AGX Orin 64GB": "jetson-agx-orin-64gb",
    # nvidia-smi and CUDA
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "NVIDIA GeForce RTX 3060 Laptop GPU": "rtx-3060-laptop",
    "NVIDIA TITAN X (Pascal)": "titan-x-pascal",
    "Tesla P100-PCIE-16GB": "tesla-p100-pcie-16gb",
    "Tesla V100-SXM2-16GB": "v100-sxm2-16gb",
    "NVIDIA A100-SXM4-80GB": "a100-sxm4-80gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "NVIDIA H100 80GB HBM3": "h100-sxm5-80gb",
    "NVIDIA H100 PCIe": "h100-pcie-80gb",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA GH200 480GB": "gh200-96gb",
    "NVIDIA GH200 144G HBM3e": "gh200-144gb",
    "NVIDIA B300 SXM6 AC": "b300-sxm",
    "NVIDIA L4": "l4",
    "NVIDIA A10G": "a10g",
    "Quadro RTX 8000": "quadro-rtx-8000",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA RTX 4000 SFF Ada Generation": "rtx-4000-sff-ada",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000-blackwell-ws",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "rtx-pro-6000-blackwell-maxq",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000-blackwell-server",
    "NVIDIA RTX PRO 4000 Blackwell SFF Edition": "rtx-pro-4000-sff-blackwell",
    "NVIDIA GB10": "dgx-spark-gb10",
    # ROCm and Vulkan
    "AMD Radeon RX 7900 XTX": "rx-7900-xtx",
    "AMD Radeon RX 7900 XTX (RADV NAVI31)": "rx-7900-xtx",
    "AMD Instinct MI250X": "mi250x",
    "AMD Radeon Pro V620": "radeon-pro-v620",
    "AMD Radeon PRO W7900": "radeon-pro-w7900",
    "AMD Radeon 780M Graphics (RADV PHOENIX)": "radeon-780m",
    "Radeon 8060S Graphics (RADV STRIX_HALO)": "ryzen-ai-max-395",
    "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S": "ryzen-ai-max-395",
    # SYCL, Metal, lspci
    "Intel(R) Arc(TM) A770 Graphics": "arc-a770-16gb",
    "Intel(R) Arc(tm) B580 Graphics (BMG G21)": "arc-b580",
    "Intel(R) Data Center GPU Max 1100": "max-1100",
    "Apple M1": "apple-m1",
    "NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)": "rtx-3090",
    "GeForce RTX™ 4090": "rtx-4090",
}

AMBIGUOUS = {
    "A100": {"a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm4-40gb", "a100-sxm4-80gb"},
    "NVIDIA A100": {"a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm4-40gb", "a100-sxm4-80gb"},
    "A100 80GB": {"a100-pcie-80gb", "a100-sxm4-80gb"},
    "A100 SXM": {"a100-sxm4-40gb", "a100-sxm4-80gb"},
    "H100": {"h100-nvl-94gb", "h100-pcie-80gb", "h100-sxm5-80gb"},
    "H100 80GB": {"h100-pcie-80gb", "h100-sxm5-80gb"},
    "GH200": {"gh200-144gb", "gh200-96gb"},
    "P100": {"tesla-p100-pcie-12gb", "tesla-p100-pcie-16gb", "tesla-p100-sxm2"},
    "V100 32GB": {"v100-pcie-32gb", "v100-sxm2-32gb"},
    "4060 Ti": {"rtx-4060-ti-16gb", "rtx-4060-ti-8gb"},
    "NVIDIA GeForce RTX 5060 Ti": {"rtx-5060-ti-16gb", "rtx-5060-ti-8gb"},
    "3060": {"rtx-3060-12gb", "rtx-3060-8gb"},
    "1660": {"gtx-1660-super", "gtx-1660-ti"},
    "RTX 6000": {"quadro-rtx-6000", "rtx-6000-ada"},
    "RTX 5000": {"quadro-rtx-5000", "rtx-5000-ada"},
    "RTX PRO 6000 Blackwell": {
        "rtx-pro-6000-blackwell-maxq",
        "rtx-pro-6000-blackwell-server",
        "rtx-pro-6000-blackwell-ws",
    },
    "7900": {"rx-7900-gre", "rx-7900-xt", "rx-7900-xtx"},
    "AMD Radeon RX 9060 XT": {"rx-9060-xt-16gb", "rx-9060-xt-8gb"},
    "AMD Instinct MI50": {"mi50-16gb", "mi50-32gb"},
    "Apple M2 Ultra": {"apple-m2-ultra-60", "apple-m2-ultra-76"},
    "Apple M3 Ultra 96GB": {"apple-m3-ultra-60", "apple-m3-ultra-80"},
    "Strix Halo 128GB": {"ryzen-ai-max-385", "ryzen-ai-max-395"},
    "Jetson Thor": {"jetson-thor-t4000", "jetson-thor-t5000"},
}

# no card's name, and the first suggestion where there is an obvious one
UNKNOWN = {
    "3090 Super": "rtx-3090",
    "GTX 3090": "rtx-3090",
    "AMD RTX 3090": "rtx-3090",
    "RTX 3090 16GB": "rtx-3090",
    "EVGA RTX 3090 FTW3": "rtx-3090",
    "RX 5700": "rx-5700-xt",
    "RTX 3O90": "rtx-3090",
    "GeForce RTX 4070 Tie": "rtx-4070",
    "A100 SXM5 80GB": None,
    "AMD FirePro D700": None,
    "A10/L4 24GB-class": None,
    "GeForce GTX TITAN X": None,
    "banana": None,
    "unknown": None,
    "": None,
    "   ": None,
    "x" * (LONGEST_NAME + 1): None,
    "(((": None,
    "24GB": None,
    "\x00": None,
}


# device names of public logs that mean no single card, and why
NOT_ONE_CARD = {
    "11 GB card": "only a size",
    "16GB GPU": "only a size",
    "20 GB card": "only a size",
    "64GB GPU": "only a size",
    "96GB-class GPU": "only a size",
    "AMD 8 GB card": "only a vendor and a size",
    "A10/L4 24GB-class": "two cards",
    "A100 80GB": "PCIe or SXM4",
    "AMD FirePro D700": "not in the catalogue",
    "H100 80GB": "PCIe or SXM5",
    "Intel Arc Graphics (iGPU)": "no model",
    "Strix Halo 128GB": "two processors",
    "V100 32GB": "PCIe or SXM2",
    "pre-Ampere GPU": "no model",
    "remote worker": "no card",
    "unknown": "no card",
}


def names_in_logs() -> Iterator[str]:
    """Device names of the observed llama.cpp and vLLM runs."""
    observed = Path(__file__).parents[1] / "observed"
    for path in sorted(observed.glob("llamacpp*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            yield from (device["gpu"] for device in json.loads(line)["devices"] or () if device["gpu"])
    yield from VLLM_NAMES


VLLM_NAMES = (
    "16GB GPU",
    "64GB GPU",
    "96GB-class GPU",
    "A10/L4 24GB-class",
    "A100 80GB",
    "A40",
    "B200",
    "DGX Spark (GB10)",
    "GB10",
    "H100 80GB",
    "H200",
    "L40S",
    "RTX 3090",
    "RTX 4060 8GB",
    "RTX 4090",
    "RTX 5070 Ti 16GB",
    "RTX 5090",
    "RTX 5090 Laptop 24GB",
    "RTX 5090D 32GB",
    "RTX A6000",
    "RTX PRO 5000 72GB",
    "V100 32GB",
    "pre-Ampere GPU",
    "unknown",
)


def test_names_in_public_logs_resolve_or_are_refused_for_a_reason() -> None:
    """Every device name of the observed runs means one card, but for those listed with the reason."""
    refused = set()
    for name in set(names_in_logs()):
        try:
            NAMES.resolve(name)
        except UnknownGpu:
            refused.add(name)
    assert refused == NOT_ONE_CARD.keys()


@pytest.mark.parametrize(("name", "slug"), EXACT.items())
def test_a_name_means_exactly_one_card(name: str, slug: str) -> None:
    """Names of people, drivers and tools resolve by rule."""
    assert NAMES.resolve(name).record.slug == slug


@pytest.mark.parametrize(("name", "slugs"), AMBIGUOUS.items())
def test_an_ambiguous_name_lists_what_it_could_be(name: str, slugs: set[str]) -> None:
    """A name that fits several cards is refused, and says which."""
    with pytest.raises(UnknownGpu, match="ambiguous") as refused:
        NAMES.resolve(name)
    assert set(refused.value.suggestions) == slugs
    assert all(slug in refused.value.detail for slug in slugs)


@pytest.mark.parametrize(("name", "suggestion"), UNKNOWN.items())
def test_an_unknown_name_is_refused(name: str, suggestion: str | None) -> None:
    """What names no card is never taken for the nearest one."""
    with pytest.raises(UnknownGpu) as refused:
        NAMES.resolve(name)
    if suggestion is not None:
        assert refused.value.suggestions[0] == suggestion
    assert set(refused.value.suggestions) <= NAMES.records.keys()


def test_a_size_in_a_name_chooses_the_memory_of_a_shared_memory_machine() -> None:
    """The machine called "M2 Ultra 76-core 64GB" has 64 GiB; without a size nothing is chosen."""
    assert NAMES.resolve("M2 Ultra 76-core 64GB").memory_bytes == 64 * GIB
    assert NAMES.resolve("M2 Ultra 76-core").memory_bytes is None
    assert NAMES.resolve("RTX 3090 24GB").memory_bytes is None


@pytest.mark.parametrize(
    ("text", "count", "name"),
    [
        ("rtx-4090", 1, "rtx-4090"),
        ("2x rtx-4090", 2, "rtx-4090"),
        ("2x3090", 2, "3090"),
        ("2\u00d73090", 2, "3090"),
        ("4 x 3090", 4, "3090"),
        (" 3X RTX 3090 ", 3, "RTX 3090"),
        ("2xtx 3090", 2, "tx 3090"),
        ("7900 XTX", 1, "7900 XTX"),
        ("9070xt", 1, "9070xt"),
        ("2x 7900xtx", 2, "7900xtx"),
        ("2x", 1, "2x"),
    ],
)
def test_a_number_in_front_repeats_a_card(text: str, count: int, name: str) -> None:
    """A number and an x count cards, unless they are part of a name like "7900xtx"."""
    assert parse_count(text) == (count, name)


def test_no_cards_is_no_number_of_cards() -> None:
    """Zero cards are refused."""
    with pytest.raises(InvalidRequest, match=f"1 to {LARGEST_COUNT}"):
        parse_count("0x 3090")


STYLES: tuple[Callable[[str], str], ...] = (
    str,
    str.upper,
    str.lower,
    str.casefold,
    lambda name: name.replace(" ", "-"),
    lambda name: name.replace(" ", "_"),
    lambda name: f"  {name}\t",
    lambda name: f"{name} Graphics",
)


def full_name(record: GpuRecord) -> str:
    """Vendor and name, as drivers print them."""
    return record.name if record.name.startswith(record.vendor) else f"{record.vendor} {record.name}"


@given(
    record=st.sampled_from(RECORDS),
    style=st.sampled_from(STYLES),
    called=st.sampled_from((full_name, lambda record: record.name)),
    count=st.integers(1, 16),
)
def test_every_name_of_the_catalogue_resolves_in_every_style(
    record: GpuRecord, style: Callable[[str], str], called: Callable[[GpuRecord], str], count: int
) -> None:
    """Case, separators, the vendor's name and a count change nothing."""
    parsed, name = parse_count(f"{count}x {style(called(record))}")
    assert (parsed, NAMES.resolve(name).record.slug) == (count, record.slug)


@given(record=st.sampled_from(RECORDS), style=st.sampled_from(STYLES[:6]))
def test_every_slug_resolves_in_every_style(record: GpuRecord, style: Callable[[str], str]) -> None:
    """A slug may be written in capitals or with other separators."""
    assert NAMES.resolve(style(record.slug)).record.slug == record.slug
    assert NAMES.resolve(style(record.slug.replace("-", " "))).record.slug == record.slug


@given(record=st.sampled_from(RECORDS), extra=st.text(st.characters(categories=["L", "N"]), min_size=2, max_size=8))
def test_a_word_too_many_never_resolves_to_another_card(record: GpuRecord, extra: str) -> None:
    """A name with a word added means that card, another card whose name has the word, or none."""
    try:
        found = NAMES.resolve(f"{record.name} {extra}").record
    except UnknownGpu:
        return
    joined = "".join(filter(str.isalnum, f"{found.name} {found.slug} {found.segment}".casefold()))
    assert found == record or extra.casefold() in joined


@given(name=st.text(max_size=60))
def test_any_text_is_resolved_or_refused(name: str) -> None:
    """No text breaks the resolver."""
    with suppress(UnknownGpu, InvalidRequest):
        count, rest = parse_count(name)
        assert NAMES.resolve(rest).record.slug in NAMES.records
        assert count >= 1
