"""Which code of an image is chosen, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from farlane.backend.device.base import CudaError
from farlane.backend.fatbin import FatBinaryError, choose
from farlane.backend.fatbin.choice import Target, looks_like_ptx, target_of

IMAGES = Path(__file__).parent / "images"


def ptx(target: str) -> bytes:
    return f"// made by hand\n/* twice */\n.version 9.0\n.target {target}\n.address_size 64\n".encode()


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        ((7, 5), "compute_75"),
        ((8, 0), "compute_80"),
        ((8, 9), "compute_80"),
        ((9, 0), "compute_90a"),
        ((10, 0), "compute_100f"),
        ((10, 3), "compute_100f"),
        ((12, 0), "compute_80"),
    ],
)
def test_the_highest_that_runs_is_chosen(capability: tuple[int, int], target: str) -> None:
    text = choose((IMAGES / "several.fatbin").read_bytes(), capability)
    assert str(target_of(text)) == target


def test_nothing_low_enough() -> None:
    with pytest.raises(
        CudaError, match=r"PTX for compute_75.*machine code for sm_75|machine code for sm_75.*PTX"
    ) as found:
        choose((IMAGES / "several.fatbin").read_bytes(), (7, 0))
    assert found.value.code == 209
    assert not found.value.sticky


def test_only_machine_code_says_which_and_what_to_do() -> None:
    with pytest.raises(CudaError, match=r"machine code for sm_75, machine code for sm_90;.*-gencode") as found:
        choose((IMAGES / "machine_code.fatbin").read_bytes(), (9, 0))
    assert found.value.code == 209


def test_a_bare_cubin() -> None:
    with pytest.raises(CudaError, match="machine code for sm_75") as found:
        choose((IMAGES / "sm_75.cubin").read_bytes(), (9, 0))
    assert found.value.code == 209


def test_bare_ptx() -> None:
    assert choose(ptx("sm_80") + b"\0\0", (9, 0)).endswith(".address_size 64\n")
    with pytest.raises(CudaError, match="PTX for compute_100a"):
        choose(ptx("sm_100a, debug"), (10, 3))


@pytest.mark.parametrize(
    ("arch", "suffix", "runs", "does_not"),
    [
        (75, "", [(7, 5), (8, 0), (12, 1)], [(7, 0)]),
        (90, "a", [(9, 0)], [(8, 9), (10, 0)]),
        (100, "f", [(10, 0), (10, 3)], [(9, 0), (12, 0), (11, 0)]),
        (103, "f", [(10, 3)], [(10, 0)]),
        (120, "a", [(12, 0)], [(12, 1)]),
    ],
)
def test_suffixes(arch: int, suffix: str, runs: list[tuple[int, int]], does_not: list[tuple[int, int]]) -> None:
    target = Target(arch, suffix)
    assert all(target.runs_on(capability) for capability in runs)
    assert not any(target.runs_on(capability) for capability in does_not)


def test_the_plain_one_wins_between_equals() -> None:
    from .test_container import entry, wrap

    texts = [ptx("sm_90a"), ptx("sm_90"), ptx("sm_80")]
    image = wrap(*(entry(text, arch=arch) for text, arch in zip(texts, (90, 90, 80), strict=True)))
    assert str(target_of(choose(image, (9, 0)))) == "compute_90"


@pytest.mark.parametrize(
    "image",
    [b"", b"hello", b"\x7fELF" + bytes(100), b"/* .version 9.0", b".version 9.0\nno target", b"// only\n// comments\n"],
)
def test_what_is_no_device_code(image: bytes) -> None:
    with pytest.raises(FatBinaryError):
        choose(image, (9, 0))


def test_looking_like_ptx_takes_linear_time() -> None:
    assert not looks_like_ptx(b"/*" * 500_000)
    assert not looks_like_ptx(b"//" * 500_000)
    assert not looks_like_ptx(b" " * 500_000)
    assert looks_like_ptx(b"  /* a */ // b\n .version 1.0")


@pytest.mark.parametrize(
    ("capability", "targets", "expected"),
    [
        ((9, 0), ["120", "100", "80"], "compute_80"),
        ((9, 0), ["120", "100", "90a"], "compute_90a"),
        ((7, 5), ["120", "80", "90"], "compute_80"),
        ((7, 5), ["80a", "100f", "120"], "compute_120"),
        ((9, 0), ["100a", "100f", "80a"], "compute_100f"),
        ((9, 0), ["120a", "100f", "100a"], "compute_100f"),
        ((12, 0), ["90a", "100a", "100f"], "compute_100f"),
        ((12, 0), ["80a", "90a"], "compute_90a"),
    ],
)
def test_any_ptx(capability: tuple[int, int], targets: list[str], expected: str) -> None:
    """The same cases as in select.rs: guest and host agree."""
    from .test_container import entry, wrap

    flags = {"a": 0x10_0000, "f": 0x20_0000}
    entries = [
        entry(ptx(f"sm_{target}"), arch=int(target.rstrip("af")), flags=flags.get(target[-1], 0)) for target in targets
    ]
    assert str(target_of(choose(wrap(*entries), capability, any_ptx=True))) == expected
    assert str(target_of(choose(ptx("sm_120"), (7, 5), any_ptx=True))) == "compute_120"
