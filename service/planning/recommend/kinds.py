"""Kinds of card that rigs are made of, with what counts about them before anything is planned."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from service.catalog.gpu_records import GpuRecord
from service.catalog.gpus import GpuCatalog, backend_of
from service.contract.recommend import RecommendRequest
from service.core.problems import InvalidRequest, concerning
from service.core.types import Backend, Gpu, Host

# a laptop's card and a chip's own GPU come once to a machine
ALONE = frozenset({"laptop", "soc"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of card; figures are of one board with all its devices, None where they are not known.

    most: how many go into one machine. mixes: whether it is a card in a slot, beside which another kind may sit.
    """

    slug: str
    backend: Backend
    devices: int
    usable_bytes: int
    bandwidth_bytes_per_s: float | None
    power_w: float | None
    slots: int | None
    price: float | None
    most: int
    mixes: bool


def kinds_of(request: RecommendRequest, catalogue: GpuCatalog, host: Host) -> tuple[list[Kind], Counter[str]]:
    """Kinds to choose from, in the catalogue's order, and how many were left out for which reason.

    Raises UnknownGpu for a name among gpus or prices, InvalidRequest for a card that has two prices.
    """
    prices = _prices(request, catalogue)
    left_out: Counter[str] = Counter()
    kinds = []
    for record in _candidates(request, catalogue):
        kind = _kind(record, catalogue, host, prices.get(record.slug), request.max_cards)
        if kind is None:
            left_out["memory size not known"] += 1
        elif reason := _useless(kind, request):
            left_out[reason] += 1
        else:
            kinds.append(kind)
    return kinds, left_out


def _candidates(request: RecommendRequest, catalogue: GpuCatalog) -> Iterator[GpuRecord]:
    names = catalogue.names
    if request.gpus is None:
        records = list(names.records.values())
    else:
        with concerning("gpus"):
            records = list(
                {record.slug: record for record in (names.resolve(name).record for name in request.gpus)}.values()
            )
    for record in records:
        if (
            (request.vendors is None or record.vendor in request.vendors)
            and (request.segments is None or record.segment in request.segments)
            and (request.backends is None or backend_of(record) in request.backends)
        ):
            yield record


def _prices(request: RecommendRequest, catalogue: GpuCatalog) -> Mapping[str, float]:
    prices: dict[str, float] = {}
    with concerning("prices"):
        for name, price in (request.prices or {}).items():
            slug = catalogue.names.resolve(name).record.slug
            if slug in prices:
                raise InvalidRequest(f"{slug} has two prices, one of them as {name!r}: give one", fields=("prices",))
            prices[slug] = price
    return prices


def _kind(record: GpuRecord, catalogue: GpuCatalog, host: Host, price: float | None, most: int) -> Kind | None:
    if record.vram_bytes is None:
        return None
    gpus = catalogue.gpus(record.slug, host=host)
    board = gpus[0].board
    return Kind(
        slug=record.slug,
        backend=gpus[0].backend,
        devices=len(gpus),
        usable_bytes=sum(gpu.usable_bytes for gpu in gpus),
        bandwidth_bytes_per_s=_bandwidth(gpus),
        power_w=record.tdp_w if record.system_power_w is None else record.system_power_w,
        slots=None if board is None else board.slot_width,
        price=price,
        most=1 if record.segment in ALONE or record.unified_memory else most,
        mixes=board is not None and board.form == "card" and record.segment not in ALONE,
    )


def _bandwidth(gpus: tuple[Gpu, ...]) -> float | None:
    known = [gpu.bandwidth_bytes_per_s for gpu in gpus if gpu.bandwidth_bytes_per_s is not None]
    return sum(known) if len(known) == len(gpus) else None


def _useless(kind: Kind, request: RecommendRequest) -> str | None:
    """Why a kind cannot be judged by what was asked."""
    key = request.sort_by or ""
    by_speed = request.min_decode_tokens_per_s is not None or key.startswith("decode")
    if kind.bandwidth_bytes_per_s is None and by_speed:
        return "memory bandwidth not known"
    if kind.power_w is None and (request.max_power_w is not None or key in ("power_w", "decode_tokens_per_s_per_w")):
        return "power not known"
    if kind.slots is None and request.max_slots is not None:
        return "takes no slot, or how many is not known"
    if kind.price is None and (request.max_price is not None or key in ("price", "decode_tokens_per_s_per_price")):
        return "no price given"
    return None
