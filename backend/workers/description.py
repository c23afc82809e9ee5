"""What a device is, as a worker says it to its host (control.py).

Owns that form, both ways.
"""

from __future__ import annotations

from typing import Any

from farlane.backend.device.base import Description


def described(description: Description) -> dict[str, Any]:
    return {
        "backend": description.backend,
        "name": description.name,
        "uuid": description.uuid.hex(),
        "compute_capability": list(description.compute_capability),
        "total_memory": description.total_memory,
        "takes_ptx": description.takes_ptx,
        "takes_machine_code": description.takes_machine_code,
        "makes_objects": description.makes_objects,
        "has_host_mappings": description.has_host_mappings,
        "has_conditions": description.has_conditions,
        "has_mappings": description.has_mappings,
        "takes_any_ptx": description.takes_any_ptx,
        "pci_bus_id": description.pci_bus_id,
        "attributes": {str(key): value for key, value in description.attributes.items()},
    }


def read_description(value: dict[str, Any]) -> Description:
    major, minor = value["compute_capability"]
    return Description(
        backend=value["backend"],
        name=value["name"],
        uuid=bytes.fromhex(value["uuid"]),
        compute_capability=(major, minor),
        total_memory=value["total_memory"],
        takes_ptx=value["takes_ptx"],
        takes_machine_code=value["takes_machine_code"],
        makes_objects=value["makes_objects"],
        has_host_mappings=value["has_host_mappings"],
        has_conditions=value["has_conditions"],
        has_mappings=value["has_mappings"],
        takes_any_ptx=value["takes_any_ptx"],
        pci_bus_id=value["pci_bus_id"],
        attributes={int(key): number for key, number in value["attributes"].items()},
    )
