"""The golden byte vectors of protos/golden, against the host and the Python client (the shim's are in the tape crate)."""

from __future__ import annotations

import inspect
import json
import keyword
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from farlane.backend.device.null import NullDevice
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.generated_operations import OPERATIONS
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting
from farlane.backend.host.host import Host
from farlane.backend.host.session import Session
from farlane.limits.generated import RECORD_BYTES
from session_replies import answers
from tape_client import generated_operations as encoders
from tape_client.results import ResultError, parse_results

PROTOS = Path(__file__).resolve().parents[2] / "protos"
TABLE = tomllib.loads((PROTOS / "tape.toml").read_text(encoding="utf-8"))


def load(name: str, entries: str) -> list[dict[str, Any]]:
    document = json.loads((PROTOS / "golden" / name).read_text(encoding="utf-8"))
    assert document["tape_version"] == TABLE["version"]
    found: list[dict[str, Any]] = document[entries]
    assert found
    return found


def python_fields(operation: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The vector's fields as Python values: hexadecimal strings become bytes."""
    return {name: bytes.fromhex(value) if isinstance(value, str) else value for name, value in fields.items()}


OPERATION_VECTORS = load("operations.json", "records")
RESULT_VECTORS = load("results.json", "records")


@pytest.fixture
def session() -> Iterator[Session]:
    host = Host(NullDevice())
    session = host.admit(Greeting(1, TAPE_VERSION_MAX)).session
    yield session
    session.close()
    host.close()


def test_every_operation_and_result_has_a_vector() -> None:
    assert {v["operation"] for v in OPERATION_VECTORS} == {row["name"] for row in TABLE["operation"]}
    assert {v["result"] for v in RESULT_VECTORS} == {row["name"] for row in TABLE["result"]}


@pytest.mark.parametrize("vector", OPERATION_VECTORS, ids=lambda v: v["operation"])
def test_the_host_reads_exactly_the_fields(vector: dict[str, Any]) -> None:
    record = bytes.fromhex(vector["record"])
    row = next(row for row in TABLE["operation"] if row["name"] == vector["operation"])
    operation = OPERATIONS[int.from_bytes(record[4:6], "little")]
    assert operation.name == vector["operation"]
    fields = python_fields(operation.name, vector["fields"])
    flags = int.from_bytes(record[6:8], "little")
    assert flags == sum(int(vector["flags"][name]) << bit for name, bit, *_ in row.get("flags", []))
    slot = fields.pop("slot", None)
    if slot is not None:
        assert operation.slot_at is not None
        assert int.from_bytes(record[operation.slot_at : operation.slot_at + 4], "little") == slot
    names = [name for _, name in row["fields"] if name in fields] + ([row["tail"]] if "tail" in row else [])
    assert sorted(names) == sorted(fields)
    expected = [item for name in names for item in (fields[name] if isinstance(fields[name], list) else [fields[name]])]
    decoded = operation.decode(record)
    assert [bytes(value) if isinstance(value, memoryview) else value for value in decoded] == expected


@pytest.mark.parametrize("vector", OPERATION_VECTORS, ids=lambda v: v["operation"])
def test_the_client_writes_exactly_the_record(vector: dict[str, Any]) -> None:
    name = vector["operation"].lower()
    encoder = getattr(encoders, f"{name}_" if keyword.iskeyword(name) else name)
    fields = python_fields(vector["operation"], vector["fields"])
    arguments = fields | vector.get("flags", {})
    assert set(inspect.signature(encoder).parameters) == set(arguments)
    assert encoder(**arguments).hex() == vector["record"]


@pytest.mark.parametrize("vector", RESULT_VECTORS, ids=lambda v: v["result"])
def test_the_client_reads_exactly_the_result(vector: dict[str, Any]) -> None:
    (result,) = parse_results(bytes.fromhex(vector["record"]))
    fields = python_fields(vector["result"], vector["fields"])
    assert result.kind.name == vector["result"]
    assert {name: getattr(result, name) for name in fields} == fields


def test_the_client_reads_results_that_follow_each_other() -> None:
    results = list(parse_results(b"".join(bytes.fromhex(v["record"]) for v in RESULT_VECTORS)))
    assert [result.kind.name for result in results] == [v["result"] for v in RESULT_VECTORS]


def golden_result(kind: str, **fields: Any) -> bytes:
    return next(
        bytes.fromhex(v["record"])
        for v in RESULT_VECTORS
        if v["result"] == kind and python_fields(kind, v["fields"]) == fields
    )


def test_the_host_writes_exactly_the_results(session: Session) -> None:
    base = session.resources.context.window.base
    records = (
        encoders.fence(1),
        encoders.module_query(8, bytes(32)),
        encoders.allocate(base, 4096),
        encoders.read(base, 5, 5, 1, 1, 9),
    )
    tape = b"".join(records)
    replies = answers(session, 1, tape)
    assert b"".join(reply.results for reply in replies) == (
        golden_result("STATUS", slot=1, error=0)
        + golden_result("VALUE", slot=8, error=0, value=0)
        + golden_result("DATA", slot=9, error=0, offset=0, data=bytes(5))
    )


@pytest.mark.parametrize("vector", load("malformed_operations.json", "messages"), ids=lambda v: v["why"])
def test_the_host_refuses_malformed_operations(vector: dict[str, Any], session: Session) -> None:
    records = bytes.fromhex(vector["records"])
    with pytest.raises(ProtocolError):
        list(session.submit(1, records, True))


@pytest.mark.parametrize("vector", load("malformed_results.json", "replies"), ids=lambda v: v["why"])
def test_the_client_refuses_malformed_results(vector: dict[str, Any]) -> None:
    with pytest.raises(ResultError):
        list(parse_results(bytes.fromhex(vector["results"])))


def test_encoders_refuse_what_a_host_would() -> None:
    with pytest.raises(encoders.RecordError, match="at most"):
        encoders.module_chunk(bytes(RECORD_BYTES))
    with pytest.raises(encoders.RecordError, match="digest"):
        encoders.module_end(bytes(31))
    with pytest.raises(encoders.RecordError, match="grid"):
        encoders.launch(16, 1, (1, 1), (1, 1, 1), 0, b"")
