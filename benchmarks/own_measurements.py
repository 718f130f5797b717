"""What three own measurements are worth, by card: `python -m benchmarks.own_measurements`.

The second table is of cards that are a quarter slower than the constants say, as a new or an odd card may be.
"""

from tests.own_measurements import gains

BACKENDS = ("cuda", "rocm", "vulkan", "metal", "sycl")


def main() -> None:
    """Print the error on a card's other models before and after."""
    for speed_factor in (1.0, 0.75):
        table(speed_factor)


def table(speed_factor: float) -> None:
    """One row for each card, whose public figures are multiplied by `speed_factor`."""
    print(f"\nfigures times {speed_factor}:\n")
    print("| card | figures | mean error | after three | median error | after three |")
    print("|---|---|---|---|---|---|")
    for backend in BACKENDS:
        for gain in gains(backend, speed_factor=speed_factor):
            print(
                f"| {gain.card} | {gain.n} | {gain.mean_before:.1%} | {gain.mean_after:.1%} "
                f"| {gain.median_before:.1%} | {gain.median_after:.1%} |"
            )


if __name__ == "__main__":
    main()
