"""Mutations of real images: whatever the bytes, an answer, a FatBinaryError or a CUDA error 209."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import fuzzing
import pytest
from farlane.backend.device.base import CudaError
from farlane.backend.fatbin import FatBinaryError, choose, parse

IMAGES = sorted(path for path in (Path(__file__).parent / "images").iterdir() if path.suffix in (".fatbin", ".cubin"))
ROUNDS = fuzzing.inputs(3000)
INTERESTING = [0, 1, 7, 8, 0x3F, 0x40, 0x50, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1]


def mutate(image: bytes, random_: random.Random) -> bytes:
    data = bytearray(image)
    for _ in range(random_.randint(1, 4)):
        kind = random_.randrange(6)
        # Most of the meaning is in the first bytes of a container and its entries.
        position = random_.randrange(min(len(data), 112) if random_.random() < 0.7 else len(data)) if data else 0
        if kind == 0 and data:
            data[position] ^= 1 << random_.randrange(8)
        elif kind == 1 and position + 8 <= len(data):
            struct.pack_into("<Q", data, position & ~7, random_.choice(INTERESTING))
        elif kind == 2 and position + 4 <= len(data):
            struct.pack_into("<I", data, position & ~3, random_.choice(INTERESTING) & 0xFFFFFFFF)
        elif kind == 3:
            del data[random_.randrange(len(data) + 1) :]
        elif kind == 4:
            data[position:position] = random_.randbytes(random_.randint(1, 32))
        else:
            data += image
    return bytes(data)


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_only_the_errors_that_are_promised(path: Path) -> None:
    image = path.read_bytes()
    random_ = random.Random(zlib.crc32(path.name.encode()))
    outcomes = {"chosen": 0, "malformed": 0, "none": 0}
    for _ in range(ROUNDS):
        mutated = mutate(image, random_)
        try:
            for entry in parse(mutated):
                entry.data()
        except FatBinaryError:
            pass
        try:
            choose(mutated, (9, 0))
            outcomes["chosen"] += 1
        except FatBinaryError:
            outcomes["malformed"] += 1
        except CudaError as error:
            if error.code != 209:
                raise
            outcomes["none"] += 1
    assert outcomes["malformed"] > ROUNDS // 10  # else the mutations did not reach the parser
