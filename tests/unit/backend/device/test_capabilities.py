"""Compute capabilities of the simulated device, and the completeness of its attributes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from farlane.backend.device import capabilities
from farlane.backend.device.generated_attributes import Attribute
from farlane.backend.device.limits import Limits
from farlane.backend.device.options import DeviceOptions
from farlane.backend.device.sim import SimDevice
from farlane.backend.device.specification import Specification, attributes
from farlane.backend.generated_limits import MAX_BLOCK, MAX_BLOCK_THREADS, MAX_GRID
from farlane.backend.jit.lowering import kernel, specials

TABLE = Path(__file__).parents[4] / "protos/cuda/attributes.toml"


def test_every_attribute_of_both_apis_has_a_value() -> None:
    tables = tomllib.loads(TABLE.read_text())
    codes = {*tables["attributes"].values(), *tables["driver"].values()}
    assert codes == set(range(1, 162)) == {int(attribute) for attribute in Attribute}
    assert set(attributes(Specification())) == codes


@pytest.mark.parametrize(("name", "clusters"), [("7.5", 0), ("8.0", 0), ("8.6", 0), ("9.0", 1), ("12.0", 1)])
def test_capability(name: str, clusters: int) -> None:
    device = SimDevice(DeviceOptions(capability=name), threads=1)
    description = device.describe()
    device.close()
    assert description.takes_any_ptx
    assert f"{description.attributes[75]}.{description.attributes[76]}" == name
    assert description.attributes[Attribute.CLUSTER_LAUNCH] == clusters


@pytest.mark.parametrize("text", ["", "9", "7.0", "90", "x"])
def test_a_wrong_capability(text: str) -> None:
    with pytest.raises(ValueError, match=r"choose one of 7\.5, 8\.0, 8\.6, 9\.0, 12\.0"):
        capabilities.parse(text)


def test_what_others_repeat_is_what_the_tables_say() -> None:
    """The compiler knows no devices, and a host does not rely on a device for what all have in common."""
    largest = max(capability.shared_opt_in for capability in capabilities.CAPABILITIES.values())
    assert largest << 10 == kernel.MAX_STATIC_SHARED
    for chosen, capability in capabilities.CAPABILITIES.items():
        limits = Limits(attributes(Specification(compute_capability=chosen)))
        assert (limits.grid, limits.block, limits.threads) == (MAX_GRID, MAX_BLOCK, MAX_BLOCK_THREADS)
        assert capability.shared_reserved << 10 <= specials.RESERVED_SHARED_BYTES
