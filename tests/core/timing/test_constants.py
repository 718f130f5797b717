"""Constants by name, with what they were fitted to."""

import pytest

from service.core.timing.constants import CALIBRATION, FITTED, RANGES, REQUIRED_FIELDS, TAKEN_AS, calibration_of
from service.core.types import Backend


@pytest.mark.parametrize("backend", ["cuda", "rocm", "vulkan", "metal", "sycl", "rpc", "cpu"])
def test_every_backend_has_every_constant(backend: Backend) -> None:
    """Nothing is looked up in vain."""
    assert backend in CALIBRATION.backends
    known = TAKEN_AS.get(backend, backend)
    assert all(f"{known}.{field}" in FITTED for field in REQUIRED_FIELDS)


def test_every_constant_says_how_well_it_is_known() -> None:
    """Measurements that took part and an error; those of CUDA decode rest on hundreds."""
    assert all(constant.n >= 0 and constant.error >= 0 for constant in FITTED.values())
    assert FITTED["cuda.kernel_s"].n > 300
    assert FITTED["cuda.kernel_s"].error < 0.2


def test_a_missing_constant_is_noticed() -> None:
    """Half a backend is no calibration."""
    with pytest.raises(KeyError):
        calibration_of({"cuda.kernel_s": 1e-6, "shared_power_fraction": 0.5})


def test_a_generation_without_constants_is_as_its_backend() -> None:
    """It has no factor of its own and was not measured."""
    unknown = CALIBRATION.generation("cuda", "Rubin")
    assert (unknown.reading_factor, unknown.prefill_factor, unknown.n_decode) == (1.0, 1.0, 0)


def test_every_range_says_what_it_covers() -> None:
    """Held-out measurements that a range from the others covers, and those on familiar cards, are shares."""
    for known in RANGES.values():
        assert known.width_fraction > 0
        assert 0 <= known.coverage_fraction <= 1
        assert 0 <= known.familiar_fraction <= 1
