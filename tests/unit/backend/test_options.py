"""The options of devices: from the environment, from arguments, to other processes."""

from __future__ import annotations

import pytest
from farlane.backend.device.gpu.work.repeats import Choice
from farlane.backend.device.options import DEFAULT, DeviceOptions


def test_without_an_environment_all_are_the_default() -> None:
    assert DeviceOptions.read({}, memory=None) == DEFAULT == DeviceOptions()


def test_from_the_environment() -> None:
    environment = {
        "FARLANE_SIM_THREADS": "3", "FARLANE_SIM_ORDER": "fast", "FARLANE_JIT_TIERS": "off", "FARLANE_CAPABILITY": "9.0",
        "FARLANE_DEVICE_MEMORY": "4194304", "FARLANE_MEMORY_POLICY": "lru", "FARLANE_MEMORY_TRACE": "/trace.json",
        "FARLANE_SIM_MODEL": "/model.json", "FARLANE_GPU_GRAPHS": "ON", "FARLANE_SESSION_REPORTS": "/reports",
    }  # fmt: skip
    found = DeviceOptions.read(environment)
    assert found == DeviceOptions(
        3, "fast", False, "9.0", 4 << 20, "lru", "/trace.json", "/model.json", "on", "/reports"
    )
    assert found.compute_capability == (9, 0)
    assert DeviceOptions.from_json(found.to_json()) == found


def test_an_argument_comes_first() -> None:
    assert DeviceOptions.read({"FARLANE_CAPABILITY": "9.0"}, capability="7.5").capability == "7.5"
    assert DeviceOptions.read({"FARLANE_CAPABILITY": "x"}, capability="7.5").capability == "7.5"


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        *(("FARLANE_SIM_THREADS", text) for text in ("0", "-1", "many", "", "99999")),
        ("FARLANE_SIM_ORDER", "any"),
        ("FARLANE_CAPABILITY", "9"),
        ("FARLANE_DEVICE_MEMORY", "much"),
        ("FARLANE_GPU_GRAPHS", "yes"),
    ],
)
def test_a_wrong_one_is_named(variable: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"{variable}={text}: "):
        DeviceOptions.read({variable: text})


def test_a_policy_needs_a_bound() -> None:
    with pytest.raises(ValueError, match="a policy, best, without a bound"):
        DeviceOptions.read({"FARLANE_MEMORY_POLICY": "best"})


@pytest.mark.parametrize("text", ["", "AUTO", "on", "Off"])
def test_every_choice_of_graphs_is_one_of_the_devices(text: str) -> None:
    assert Choice(DeviceOptions.read({"FARLANE_GPU_GRAPHS": text}).graphs)
