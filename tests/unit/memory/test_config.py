"""The configuration file: presets, inheritance, and errors that name the key."""

from __future__ import annotations

from pathlib import Path

import pytest
from farlane.backend.memory import config


def test_every_preset_loads() -> None:
    assert {"mgpusim", "gem5", "mgpusim-64k", "mgpusim-2m"} <= set(config.presets())
    for name in config.presets():
        assert config.preset(name).tlb.cores == 64


def test_the_published_configuration() -> None:
    tlb = config.preset("mgpusim").tlb
    assert (tlb.private.entries, tlb.private.ways, tlb.private.latency) == (32, 32, 1)
    assert (tlb.shared.entries, tlb.shared.ways, tlb.shared.latency) == (512, 16, 10)
    assert (tlb.walk.walkers, tlb.walk.queue, tlb.walk.level_cycles, tlb.walk.cache_entries) == (8, 64, 100, 128)
    assert config.preset("gem5").tlb.shared.latency == 69
    assert config.preset("gem5").tlb.walk.fixed_cycles == 750


def test_a_file_rests_on_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "memory.toml"
    path.write_text('base = "gem5"\n[tlb]\npage_bytes = 65536\n[tlb.private]\nentries = 64\n')
    tlb = config.load(path).tlb
    assert (tlb.page_bytes, tlb.private.entries, tlb.shared.latency) == (65536, 64, 69)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[tlb.private]\nentires = 3", "tlb.private.entires: no such key; did you mean entries"),
        ('[tlb.private]\nentries = "x"', "tlb.private.entries: expected a whole number"),
        ("[tlb.private]\nentries = 0", "tlb.private.entries: expected 1 to"),
        ("[tlb.private]\nentries = 1.5", "tlb.private.entries: expected a whole number"),
        ("[tlb]\ncores = true", "tlb.cores: expected a whole number"),
        ("[tlb]\ncores = 63", "tlb.network.columns: 63 cores"),
        ("[tlb.private]\nentries = 33", "tlb.private.ways: 33 entries"),
        ('[tlb]\nsharing = "some"', "tlb.sharing: expected one of"),
        ('[cores]\npolicy = "any"', "cores.policy: expected one of 'two-ended', 'first-fit'"),
        ("[tlb]\nsharing = []", "tlb.sharing: expected one of"),
        ("[tlb]\npage_bytes = 8192", "tlb.page_bytes: expected one of 4096, 65536, 2097152"),
        ("tlb = 3", "tlb: expected a table"),
        ("[tlb]\nwalk = 3", "tlb.walk: expected a table"),
        ("[paging]\nmemory_mib = 3", "paging.memory_mib: expected a multiple of 2"),
        ('base = "none"', "base: no preset is called"),
        ("base = 3", "base: expected the name"),
        ("nothing", "not TOML"),
    ],
)
def test_a_wrong_value_names_its_key(text: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "memory.toml"
    path.write_text(text)
    with pytest.raises(config.ConfigError) as caught:
        config.load(path)
    assert str(caught.value).startswith(f"{path}: {key}")


def test_only_text_of_bounded_length(tmp_path: Path) -> None:
    path = tmp_path / "memory.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(config.ConfigError, match="not UTF-8"):
        config.load(path)
    path.write_bytes(b"#" * (config.MAX_BYTES + 1))
    with pytest.raises(config.ConfigError, match="more than"):
        config.load(path)
