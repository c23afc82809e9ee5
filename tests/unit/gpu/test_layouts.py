"""Layouts of parameters that a driver shifts, for its constant bank begins at a multiple of 16 alone."""

from __future__ import annotations

from typing import Any

import pytest
from farlane.backend.device.gpu.driver.interface import Parameter
from farlane.backend.device.gpu.work.modules import GpuFunction, laid_out


@pytest.mark.parametrize(
    ("driver", "size", "expected"),
    [
        # Seen on an H100, whose parameters begin at 528: a tensor map alone, and in front of a pointer and numbers.
        ([(112, 128)], 128, [(0, 128)]),
        ([(112, 128), (240, 128), (368, 8), (376, 4), (380, 4), (384, 4)], 276,
         [(0, 128), (128, 128), (256, 8), (264, 4), (268, 4), (272, 4)]),
        ([(112, 128), (240, 8), (248, 8), (256, 4), (260, 4), (264, 4)], 156,
         [(0, 128), (128, 8), (136, 8), (144, 4), (148, 4), (152, 4)]),
        # Behind something small, aligned by 128 and by 64.
        ([(0, 4), (112, 128), (240, 1), (244, 4)], 264, [(0, 4), (128, 128), (256, 1), (260, 4)]),
        ([(0, 4), (48, 128), (176, 1), (180, 4)], 200, [(0, 4), (64, 128), (192, 1), (196, 4)]),
        ([(0, 8), (8, 4)], 16, None),
        ([], 4, None),
    ],
)  # fmt: skip
def test_layouts(driver: list[tuple[int, int]], size: int, expected: list[tuple[int, int]] | None) -> None:
    assert laid_out([Parameter(*each) for each in driver], size) == expected


class Driver:
    """Of a kernel with a number and a structure of 32 bytes."""

    def parameters(self, function: int) -> list[Parameter]:
        return [Parameter(0, 4), Parameter(4, 32)]

    def function_attribute(self, function: int, attribute: int) -> int:
        return 0


def test_a_wrong_size_that_fits_by_chance_does_not_spoil_the_right_one() -> None:
    driver: Any = Driver()
    kernel = GpuFunction(driver, Any, "kernel", 1)
    assert kernel.lay_out(36)
    assert not kernel.lay_out(40)
    assert kernel.parameter_bytes == 36
    assert kernel.lay_out(64)  # as if the structure were aligned by 32
    assert kernel.lay_out(36)
    assert (kernel.parameter_bytes, len(kernel.buffer.view)) == (36, 36)
