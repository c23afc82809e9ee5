"""Bit patterns of f32 for conversions to smaller formats: edges of these formats, usual numbers, random ones."""

from __future__ import annotations

import numpy as np

SINGLES = np.array(
    [0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 1, 0x80000001, 0x00800000, 0x7F7FFFFF,
     0xFF7FFFFF, 0x43E00000, 0x43E80000, 0x43E7FFFF, 0x43F00000, 0xC7600000, 0x47700000, 0x3B000000, 0x3A800000, 0x3A800001, 0x3B400000,
     0x37000000, 0x37800000, 0x38000000, 0x3F801000, 0x3F803000, 0x3F800FFF, 0x7F7FF000, 0x477FEFFF, 0x477FF000, 0x33000000],
    "u4",
)  # fmt: skip


def singles() -> np.ndarray:
    generator = np.random.default_rng(5)
    scaled = (generator.standard_normal(150) * 2.0 ** generator.integers(-20, 18, 150)).astype("f4").view("u4")
    return np.concatenate([SINGLES, scaled, generator.integers(0, 1 << 32, 60, dtype="u4")])
