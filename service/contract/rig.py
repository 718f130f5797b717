"""The machine of a request: cards by name or as figures, and the host around them."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Discriminator, Field, Tag

from service.contract.quantities import REQUEST, Bytes, Flag, Rate, Text, Whole

BackendName: TypeAlias = Literal["cuda", "rocm", "vulkan", "metal", "sycl", "rpc", "cpu"]
PcieGeneration: TypeAlias = Annotated[Whole, Field(ge=1, le=6)]
PcieLanes: TypeAlias = Annotated[Whole, Field(ge=1, le=32)]
CardIndex: TypeAlias = Annotated[Whole, Field(ge=0, le=999)]
Leads: TypeAlias = Annotated[Whole, Field(ge=0, le=64)]


def _kind(value: object) -> str:
    # in brackets, so that no field of a request is called like a member of a union
    return "<name>" if isinstance(value, str) else "<object>"


class InlineGpu(BaseModel):
    """A card that is in no catalogue, described by its figures."""

    model_config = REQUEST

    name: Text = Field(description="What the card is called in the answer.", examples=["lab card"])
    vram_bytes: Annotated[Bytes, Field(ge=1)] = Field(
        description="Memory size in bytes as the driver reports it; 24 GB on a box are 24 GiB.", examples=[25769803776]
    )
    bandwidth_bytes_per_s: Rate | None = Field(
        None,
        description="Memory bandwidth in bytes per second (936 GB/s are 936e9). Without it the plan has no speed.",
        examples=[936e9],
    )
    fp16_tensor_flops: Rate | None = Field(
        None, description="Dense FP16 matrix rate in floating-point operations per second.", examples=[71e12]
    )
    tdp_w: Rate | None = Field(None, description="Board power in watts.", examples=[350])
    backend: BackendName = Field("cuda", description="The llama.cpp backend that drives the card.")
    compute_capability: Annotated[str, Field(pattern=r"^\d{1,2}\.\d$")] | None = Field(
        None, description="NVIDIA compute capability, for speed by generation.", examples=["8.6"]
    )


CardReference: TypeAlias = Annotated[
    Annotated[Text, Tag("<name>")] | Annotated[InlineGpu, Tag("<object>")],
    Discriminator(_kind),
]


class GpuRequest(BaseModel):
    """One or several equal cards, with what differs from the catalogue."""

    model_config = REQUEST

    gpu: CardReference = Field(
        description="Catalogue slug or alias, or a card described by its figures.", examples=["rtx-5090"]
    )
    count: Annotated[Whole, Field(ge=1, le=1000)] = Field(1, description="How many of this card.")
    free_bytes: Bytes | None = Field(
        None,
        description="Memory a program can get now, in bytes (nvidia-smi's free minus the CUDA context); "
        "null: as on an idle card.",
        examples=[24000000000],
    )
    power_limit_w: Rate | None = Field(None, description="Power limit set on the card, in watts.", examples=[280])
    pcie_gen: PcieGeneration | None = Field(None, description="PCI Express generation of its slot.", examples=[4])
    pcie_lanes: PcieLanes | None = Field(None, description="PCI Express lanes of its slot.", examples=[16])
    backend: BackendName | None = Field(
        None, description="Backend that drives it; null: the vendor's own (CUDA, ROCm, SYCL, Metal)."
    )
    behind: Literal["cpu", "chipset", "switch"] | None = Field(
        None, description="What its slot hangs on; null: the processor, or not known."
    )
    numa_node: Annotated[Whole, Field(ge=0, le=63)] | None = Field(
        None, description="NUMA node (socket) of its slot.", examples=[0]
    )


RigGpu: TypeAlias = Annotated[
    Annotated[Text, Tag("<name>")] | Annotated[GpuRequest, Tag("<object>")],
    Discriminator(_kind),
]


class HostRequest(BaseModel):
    """The computer around the cards; null where unknown."""

    model_config = REQUEST

    ram_bytes: Bytes | None = Field(
        None, description="Main memory that the engine may use, in bytes.", examples=[68719476736]
    )
    ram_bandwidth_bytes_per_s: Rate | None = Field(
        None, description="Main memory bandwidth in bytes per second.", examples=[83.2e9]
    )
    cpu: Text | None = Field(None, description="Processor, in words.", examples=["Ryzen 9 7950X"])
    cpu_w: Rate | None = Field(
        None,
        description="What all processors draw at most, in watts (PPT, PL2); null: by `cpu`, else what is assumed.",
        examples=[230],
    )
    dimms: Annotated[Whole, Field(ge=1, le=64)] | None = Field(None, description="Memory modules.", examples=[4])
    nics: Annotated[Whole, Field(ge=0, le=64)] | None = Field(None, description="Network cards.", examples=[1])


class PsuLeads(BaseModel):
    """Cables for cards that one power supply has."""

    model_config = REQUEST

    pcie_8pin: Leads = Field(0, description="8-pin (6+2) PCI Express plugs, each on a cable of its own.", examples=[4])
    pcie_16pin: Leads = Field(0, description="12VHPWR or 12V-2x6 cables.", examples=[1])
    eps_8pin: Leads = Field(0, description="8-pin EPS plugs that the board leaves free.", examples=[1])


class PsuRequest(BaseModel):
    """The power supply, or several equal ones."""

    model_config = REQUEST

    rated_w: Rate | None = Field(None, description="Rated power of each in watts.", examples=[1200])
    atx_version: Text | None = Field(None, description="ATX specification it follows.", examples=["3.1"])
    count: Annotated[Whole, Field(ge=1, le=16)] | None = Field(None, description="How many; null: one.", examples=[2])
    kind: Literal["atx", "server"] | None = Field(
        None, description="atx; or server for a rack or mining supply (CRPS) on a breakout board."
    )
    efficiency: Literal["bronze", "silver", "gold", "platinum", "titanium"] | None = Field(
        None, description="80 PLUS class; null: gold."
    )
    connectors: PsuLeads | None = Field(None, description="Cables of one supply; null: not checked.")
    feeds: Annotated[list[list[CardIndex]], Field(max_length=16)] | None = Field(
        None,
        description="Cards that each supply feeds, the first one feeding the host as well; null: divided evenly.",
        examples=[[[0, 1], [2, 3]]],
    )
    worst_case: Flag | None = Field(
        None, description="Size for the largest step of the PCI Express specification instead of measured ones."
    )


class CircuitRequest(BaseModel):
    """The wall circuit, and what energy costs."""

    model_config = REQUEST

    volts: Rate | None = Field(None, description="Nominal voltage in volts.", examples=[230])
    amps: Rate | None = Field(None, description="Breaker rating in amperes.", examples=[16])
    continuous: Flag | None = Field(
        None, description="Whether the load runs for three hours or more; null: a server does, a benchmark does not."
    )
    shared: Flag | None = Field(None, description="Whether other devices hang on the circuit.")
    tariff_per_kwh: Rate | None = Field(None, description="Price of a kilowatt-hour, in any currency.", examples=[0.3])


class RigRequest(BaseModel):
    """Cards in the order the engine will see them, and the machine around them."""

    model_config = REQUEST

    preset: Text | None = Field(
        None,
        description="A rig of `GET /rigs`; whatever else is stated here takes the place of the preset's.",
        examples=["4x-3090-open-frame"],
    )
    gpus: Annotated[list[RigGpu], Field(max_length=1000)] = Field(
        default_factory=list,
        description="Cards in engine order: a slug or alias, with `Nx ` in front to repeat it, or an object. "
        "An empty list plans on the host alone. At most 16 devices in all, the engine's own limit.",
        examples=[["rtx-3090", "2x rtx-4090"]],
    )
    nvlink: Flag | list[list[CardIndex]] | None = Field(
        None, description="null: what the cards allow; false: none; or groups of card indices joined by NVLink."
    )
    p2p: Flag | None = Field(None, description="Peer-to-peer access; null: as the stock driver allows.")
    host: HostRequest = Field(default_factory=HostRequest)
    psu: PsuRequest = Field(default_factory=PsuRequest)
    circuit: CircuitRequest = Field(default_factory=CircuitRequest)
    slots: Annotated[Whole, Field(ge=1, le=64)] | None = Field(
        None, description="Expansion slots that the case has for cards."
    )
    chassis: Literal["desktop", "open-frame", "rack"] | None = Field(
        None, description="What the cards sit in; null: not known."
    )
    platform: Text | None = Field(
        None,
        description="Socket or chipset that the slots hang on; null: by `host.cpu`, or not known.",
        examples=["am5"],
    )
