"""The Mandelbrot set by a Numba kernel, in a process that makes itself a guest: no `farlane run` in front of it."""

from __future__ import annotations

import farlane

farlane.connect()  # before the first import that uses CUDA

import numpy as np  # noqa: E402
from numba import config, cuda  # noqa: E402

WIDTH, HEIGHT, STEPS = 48, 16, 60
SHADES = " ,:-=+*#%@"


@cuda.jit
def mandelbrot(image):
    x, y = cuda.grid(2)
    if x < image.shape[1] and y < image.shape[0]:
        c = complex(-2.2 + 3.2 * x / image.shape[1], -1.2 + 2.4 * y / image.shape[0])
        z, steps = 0j, 0
        while steps < STEPS and z.real * z.real + z.imag * z.imag < 4.0:
            z = z * z + c
            steps += 1
        image[y, x] = steps


def main() -> None:
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # the picture is small on purpose
    image = cuda.device_array((HEIGHT, WIDTH), dtype=np.int32)
    mandelbrot[(3, 1), (16, 16)](image)
    print("computed by a Numba kernel:")
    for row in image.copy_to_host():
        print("|" + "".join(SHADES[min(len(SHADES) - 1, steps * len(SHADES) // STEPS)] for steps in row).rstrip())


if __name__ == "__main__":
    main()
