"""Fits the constants of the speed model to public measurements, and reports how accurate they are.

Writes `fitted.py` and `fitted_ranges.py` in service/core/timing, and `ACCURACY.md`; run from the project's root, it
takes a minute and a half::

    python benchmarks/calibrate.py            fit, cross-validate, write both
    python benchmarks/calibrate.py --check    fit and cross-validate; fail where what is committed differs
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.calibration.fit import Found, fit_all, log_errors  # noqa: E402
from benchmarks.calibration.held_out import held_out  # noqa: E402
from benchmarks.calibration.priors import priors  # noqa: E402
from benchmarks.calibration.report import report  # noqa: E402
from benchmarks.calibration.stages import stages  # noqa: E402
from benchmarks.calibration.table_file import constants_text, ranges_text  # noqa: E402
from benchmarks.calibration.widths import covered, ranges  # noqa: E402
from service.core.timing.figures import Range  # noqa: E402
from service.core.timing.fitted import FITTED, FITTED_ON  # noqa: E402
from service.core.timing.fitted_ranges import RANGES  # noqa: E402
from service.core.timing.generations import generation_label  # noqa: E402
from tests.speed_cases import SpeedCase, refused_cases, speed_cases  # noqa: E402

TIMING = ROOT / "service" / "core" / "timing"
REPORT = ROOT / "ACCURACY.md"
# what another machine's arithmetic may change
_CONSTANTS_AGREE, _RANGES_AGREE = 0.02, 0.05


def measured_generations(cases: tuple[SpeedCase, ...]) -> dict[str, frozenset[str]]:
    """Generations that were measured, by backend other than CUDA, whose generations are listed."""
    found: dict[str, set[str]] = {}
    for case in cases:
        for gpu in case.rig.gpus:
            label = generation_label(gpu)
            if label is not None and case.backend != "cuda":
                found.setdefault(case.backend, set()).add(label)
    return {backend: frozenset(labels) for backend, labels in sorted(found.items())}


def differences(constants: Mapping[str, Found], widths: Mapping[str, Range]) -> Iterator[str]:
    """What is not as committed."""
    for name, found in constants.items():
        committed = FITTED.get(name)
        if committed is None or abs(found.value - committed.value) > _CONSTANTS_AGREE * abs(found.value):
            yield f"{name} is {found.value:.4g}, committed {committed.value if committed else None}"
    yield from (f"{name} is no constant any more" for name in FITTED if name not in constants)
    yield from (f"{group} has no range any more" for group in RANGES if group not in widths)
    for group, width in widths.items():
        known = RANGES.get(group)
        if known is None or abs(width.width_fraction - known.width_fraction) > _RANGES_AGREE * width.width_fraction:
            yield f"range of {group} is {width.width_fraction:.3f}, committed {known.width_fraction if known else None}"


def main() -> None:
    """Fit, then write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where what is committed differs")
    check = parser.parse_args().check
    cases = speed_cases()
    known = priors(measured_generations(tuple(case for case in cases if case.speculates is None)))
    plan = stages(known)
    constants = fit_all(plan, known, cases)
    held = held_out(plan, known, cases)
    inside = covered(cases, held)
    widths = ranges(cases, held, inside)
    if check:
        found = list(differences(constants, widths))
        print(*found, sep="\n")
        sys.exit(1 if found else 0)
    today = datetime.now(UTC).date().isoformat()
    if list(differences(constants, widths)):
        (TIMING / "fitted.py").write_text(constants_text(today, constants), "utf-8")
        (TIMING / "fitted_ranges.py").write_text(ranges_text(widths), "utf-8")
        print("constants changed: run again for the report")
        return
    rounded = {name: constant.value for name, constant in FITTED.items()}
    committed = log_errors(rounded, cases)
    REPORT.write_text(report(cases, committed, held.errors, inside, refused_cases(), FITTED_ON), "utf-8")


if __name__ == "__main__":
    main()
