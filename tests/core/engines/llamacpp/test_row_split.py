"""Split mode row, where llama.cpp had or has it."""

from hypothesis import given
from hypothesis import strategies as st

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.row_split import RowCard, row_cuts, split_rows
from service.core.engines.llamacpp.slots import split_slots
from service.core.engines.llamacpp.weights import place_weights, weight_layout
from service.core.types import Backend
from tests.models import load_model

GIB = 2**30


def card(gib: int = 24, rounding_rows: int = 128, backend: Backend = "cuda") -> RowCard:
    """A card as row split sees it."""
    return RowCard(backend=backend, rounding_rows=rounding_rows, total_bytes=gib * GIB)


def test_rows_are_cut_by_the_cards_sizes() -> None:
    """4,096 rows on cards of 24 and 12 GiB: the cut at two thirds is rounded down to 128 rows."""
    assert row_cuts(4096, (card(24), card(12)), ()) == (2688, 1408)


def test_rows_are_cut_by_shares_where_there_are_any() -> None:
    """3:1 gives three quarters of the rows to the first card; a share of zero gives none."""
    assert row_cuts(4096, (card(), card()), (3.0, 1.0)) == (3072, 1024)
    assert row_cuts(4096, (card(), card()), (0.0, 1.0)) == (0, 4096)


def test_older_cards_round_to_fewer_rows() -> None:
    """Cards before Volta work on 64 rows at once; the largest of all cards with rows counts."""
    assert row_cuts(1000, (card(rounding_rows=64), card(rounding_rows=64)), ()) == (448, 552)
    assert row_cuts(1000, (card(rounding_rows=64), card()), ()) == (384, 616)


@given(n_rows=st.integers(1, 20000), shares=st.lists(st.integers(0, 9).map(float), min_size=1, max_size=6).filter(any))
def test_every_row_is_on_one_card(n_rows: int, shares: list[float]) -> None:
    """Cuts add up to the rows and none is negative."""
    cuts = row_cuts(n_rows, (card(),) * len(shares), shares)
    assert sum(cuts) == n_rows
    assert min(cuts) >= 0


def test_matrices_are_cut_and_the_rest_stays_by_layer() -> None:
    """Two equal cards hold like parts of all matrices; nothing is lost, and the host is as in layer mode."""
    model = load_model("llama-3.1-8b:Q4_K_M")
    hp = read_hparams(model)
    layout, slots = weight_layout(model, hp), split_slots(hp.n_layer_all, 999, (1.0, 1.0))
    by_row = split_rows(layout, slots, (card(), card()), ())
    by_layer = place_weights(layout, slots, ("cuda", "cuda"))
    assert by_row.host == by_layer.host
    assert sum(d.weights_bytes for d in by_row.devices) == sum(d.weights_bytes for d in by_layer.devices)
    first, second = (device.weights_bytes for device in by_row.devices)
    assert abs(first - second) < 0.01 * first


def test_backends_that_never_cut_rows_hold_their_layers() -> None:
    """On Vulkan row mode was by layer."""
    model = load_model("llama-3.1-8b:Q4_K_M")
    hp = read_hparams(model)
    layout, slots = weight_layout(model, hp), split_slots(hp.n_layer_all, 999, (1.0, 1.0))
    cards = (card(backend="vulkan"), card(backend="vulkan"))
    assert split_rows(layout, slots, cards, ()) == place_weights(layout, slots, ("vulkan", "vulkan"))
