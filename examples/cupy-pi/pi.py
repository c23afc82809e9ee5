"""Pi by CuPy, as the area of a quarter of a circle: an ordinary script that knows nothing of Farlane."""

from __future__ import annotations

import cupy as cp

STEPS = 1 << 16


def main() -> None:
    x = (cp.arange(STEPS, dtype=cp.float64) + 0.5) / STEPS
    area = cp.sqrt(1 - x * x).sum() / STEPS
    print(f"pi is about {float(4 * area):.4f}")


if __name__ == "__main__":
    main()
