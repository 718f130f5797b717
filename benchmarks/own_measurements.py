"""What three own measurements are worth, by card: `python -m benchmarks.own_measurements`."""

from tests.own_measurements import gains

BACKENDS = ("cuda", "rocm", "vulkan", "metal", "sycl")


def main() -> None:
    """Print the error on a card's other models before and after."""
    print("| card | figures | mean error | after three | median error | after three |")
    print("|---|---|---|---|---|---|")
    for backend in BACKENDS:
        for gain in gains(backend):
            print(
                f"| {gain.card} | {gain.n} | {gain.mean_before:.1%} | {gain.mean_after:.1%} "
                f"| {gain.median_before:.1%} | {gain.median_after:.1%} |"
            )


if __name__ == "__main__":
    main()
