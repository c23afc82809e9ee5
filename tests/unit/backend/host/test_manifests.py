"""Objects of guests on the host: asked for, uploaded, analyzed in a process, handed out; hostile and broken uploads."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from farlane.analyzer.loader import elf
from farlane.analyzer.manifest import reader
from farlane.backend.device.null import NullDevice
from farlane.backend.host import manifests as module
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting, Refused
from farlane.backend.host.host import Host
from farlane.backend.host.manifests import (
    GuestObject,
    ManifestStore,
    SessionManifests,
    analyzer_revision,
    identity_of,
    scope_of,
)
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import parse
from farlane.frontend.hosts import parse_url
from farlane.v1 import session_pb2 as pb
from tape_client.connection import Connection
from threadless import threadless
from waiting import eventually

PART = 50_000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("program") / "program"
    source = "int main(int argc, char **) { int sum = 0; for (int i = 0; i < argc; i++) sum += i; return sum; }"
    subprocess.run(
        ["g++", "-x", "c++", "-", "-O1", "-s", "-Wl,--build-id=sha1", "-o", path], input=source, text=True, check=True
    )
    return path.read_bytes()


@pytest.fixture(scope="module")
def identity(program: bytes) -> bytes:
    return bytes.fromhex(elf.load_bytes(program, "program").identity)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ManifestStore]:
    made = ManifestStore(tmp_path / "store", analyzer_revision())
    yield made
    made.close()


@pytest.fixture
def url(store: ManifestStore) -> Iterator[str]:
    host = Host(NullDevice(), manifests=store)
    edge = Edge(host)
    (bound,) = edge.listen([parse("grpc://127.0.0.1:0")])
    yield str(bound)
    edge.stop(5)
    host.close()


def connect(url: str, *objects: pb.Object, mode: str = "loops") -> Connection:
    return Connection(parse_url(url), pb.Hello(client_version="test", program="test", mode=mode, objects=objects), 10)


def upload(connection: Connection, identity: bytes, content: bytes) -> None:
    starts = range(0, len(content), PART)
    for start in starts:
        part = pb.ObjectPart(identity=identity, data=content[start : start + PART], last=start == starts[-1])
        connection.send(pb.GuestMessage(object_part=part))


def left(store: ManifestStore) -> list[str]:
    return sorted(path.suffix for path in store._folder.glob("*")) + [
        path.name for path in store._folder.glob(".*") if path.is_file()
    ]


def test_an_object_is_asked_for_once_and_its_manifest_handed_out(
    url: str, store: ManifestStore, program: bytes, identity: bytes
) -> None:
    described = pb.Object(identity=identity, size=len(program))
    first = connect(url, described)
    assert list(first.welcome.wanted_objects) == [identity]
    assert not first.welcome.manifests
    upload(first, identity, program)
    first.goodbye()
    eventually(lambda: store.idle)
    second = connect(url, described)
    assert not second.welcome.wanted_objects
    (manifest,) = second.welcome.manifests
    assert manifest.identity == identity
    assert reader.read(manifest.content).identity == identity
    second.goodbye()
    assert left(store) == [".manifest"]


def test_an_object_is_asked_for_again_where_no_thread_could_be_started(
    url: str, store: ManifestStore, program: bytes, identity: bytes
) -> None:
    described = pb.Object(identity=identity, size=len(program))
    with threadless("farlane-analysis") as refused:
        first = connect(url, described)
        upload(first, identity, program)
        first.goodbye()
        eventually(lambda: store.idle and refused)
    assert left(store) == []
    second = connect(url, described)
    assert list(second.welcome.wanted_objects) == [identity]
    upload(second, identity, program)
    second.goodbye()
    eventually(lambda: store.idle)
    assert left(store) == [".manifest"]


def test_what_is_not_asked_for(url: str, program: bytes, identity: bytes) -> None:
    size = len(program)
    for described, mode in [
        (pb.Object(identity=identity, size=size, has_manifest=True), "loops"),
        (pb.Object(identity=identity, size=size), "calls"),
        (pb.Object(identity=identity, size=0), "loops"),
        (pb.Object(identity=identity, size=module.OBJECT_BYTES + 1), "loops"),
    ]:
        connection = connect(url, described, mode=mode)
        assert not connection.welcome.wanted_objects, described
        upload(connection, identity, program)  # ignored, and the session goes on
        connection.goodbye()
    many = connect(url, *(pb.Object(identity=bytes([n, 1]), size=10) for n in range(40)))
    assert len(many.welcome.wanted_objects) == module.OBJECTS_WANTED
    many.goodbye()


def test_a_host_without_the_analyzer_asks_for_nothing(tmp_path: Path, identity: bytes) -> None:
    session = ManifestStore(tmp_path, None).open("", [GuestObject(identity, 100, False)])
    assert (session.wanted, session.found) == ((), [])


@pytest.mark.parametrize("broken", ["identity", "short", "long", "noise", "no file at all", "truncated"])
def test_broken_uploads_cost_only_themselves(
    broken: str, url: str, store: ManifestStore, program: bytes, identity: bytes
) -> None:
    content, claimed, size = program, identity, len(program)
    if broken == "identity":
        claimed = bytes(20)
    elif broken == "short":
        content = program[:-100]
    elif broken == "long":
        content = program + bytes(100)
    elif broken == "noise":
        content = random.Random(3).randbytes(size)
    elif broken == "no file at all":
        content, size = b"x", 1
    elif broken == "truncated":
        content, size = program[: len(program) // 2], len(program) // 2
    connection = connect(url, pb.Object(identity=claimed, size=size))
    assert list(connection.welcome.wanted_objects) == [claimed]
    upload(connection, claimed, content)
    connection.goodbye()  # the session is unharmed
    eventually(lambda: store.idle)
    assert left(store) == []
    again = connect(url, pb.Object(identity=claimed, size=size))
    assert not again.welcome.manifests
    # What was analyzed in vain is not asked for again; what did not arrive whole is.
    assert bool(again.welcome.wanted_objects) == (broken in ("short", "long"))
    again.goodbye()


def test_a_guest_that_leaves_in_the_middle_leaves_nothing(
    url: str, store: ManifestStore, program: bytes, identity: bytes
) -> None:
    connection = connect(url, pb.Object(identity=identity, size=len(program)))
    connection.send(pb.GuestMessage(object_part=pb.ObjectPart(identity=identity, data=program[:100])))
    eventually(lambda: not store.idle)
    connection.close()
    eventually(lambda: store.idle)
    assert left(store) == []


def test_hellos_that_break_the_rules_are_refused(store: ManifestStore) -> None:
    host = Host(NullDevice(), manifests=store)
    for objects in (
        [GuestObject(b"", 1, False)],
        [GuestObject(bytes(33), 1, False)],
        [GuestObject(b"x", 1, False)] * 300,
    ):
        with pytest.raises(Refused):
            host.admit(Greeting(1, TAPE_VERSION_MAX, mode="loops", objects=objects))
    host.close()


def session(store: ManifestStore, identity: bytes, size: int, peer: str = "") -> SessionManifests:
    return store.open(peer, [GuestObject(identity, size, False)])


def test_manifests_stay_with_the_address_that_uploaded(store: ManifestStore, program: bytes, identity: bytes) -> None:
    """A stranger's file can carry any build-id."""
    uploading = session(store, identity, len(program), "tcp:10.0.0.1:5")
    uploading.part(identity, program, True)
    eventually(lambda: store.idle)
    assert [found for found, _ in session(store, identity, 9, "tcp:10.0.0.1:77").found] == [identity]
    other = session(store, identity, 9, "tcp:10.0.0.2:5")
    assert (other.found, other.wanted) == ([], (identity,))
    assert scope_of("tcp:[::1]:50") == scope_of("tcp:[::1]:51") != scope_of("unix:")


def test_two_that_send_the_same_at_once(store: ManifestStore, program: bytes, identity: bytes) -> None:
    first, second = (session(store, identity, len(program)) for _ in range(2))
    first.part(identity, program[:10], False)
    second.part(identity, program, True)  # the first has begun
    assert session(store, identity, len(program)).wanted == ()
    first.part(identity, program[10:], True)
    second.close()
    eventually(lambda: store.idle)
    assert session(store, identity, len(program)).found


def test_what_arrives_is_bounded(
    store: ManifestStore, program: bytes, identity: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ARRIVING_BYTES", len(program) + 10)
    first = session(store, identity, len(program))
    first.part(identity, b"", False)
    second = session(store, b"other", 11)
    second.part(b"other", bytes(11), True)
    assert second.wanted == (b"other",)
    first.close()
    assert store.idle
    assert left(store) == []
    assert session(store, b"other", 11).wanted == (b"other",)


def test_an_analysis_that_takes_too_long_is_ended(tmp_path: Path, program: bytes, identity: bytes) -> None:
    store = ManifestStore(tmp_path, analyzer_revision(), seconds=0.01)
    uploading = session(store, identity, len(program))
    uploading.part(identity, program, True)
    eventually(lambda: store.idle)
    assert session(store, identity, len(program)).wanted == ()
    assert left(store) == []
    store.close()


def test_closing_ends_a_running_analysis(tmp_path: Path, program: bytes, identity: bytes) -> None:
    store = ManifestStore(tmp_path, analyzer_revision())
    uploading = session(store, identity, len(program))
    uploading.part(identity, program, True)
    store.close()
    assert store.idle
    assert store._process is None


def test_a_folder_that_cannot_be_made(tmp_path: Path, program: bytes, identity: bytes) -> None:
    (tmp_path / "file").write_text("")
    store = ManifestStore(tmp_path / "file", analyzer_revision())
    uploading = session(store, identity, len(program))
    uploading.part(identity, program, True)
    assert store.idle
    store.close()


def test_damaged_files_of_the_store_are_not_handed_out(store: ManifestStore, program: bytes, identity: bytes) -> None:
    uploading = session(store, identity, len(program))
    uploading.part(identity, program, True)
    eventually(lambda: store.idle)
    (path,) = store._folder.glob("*.manifest")
    whole = path.read_bytes()
    assert identity_of(whole) == identity
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        assert not session(store, identity, 9).found
    path.write_bytes(whole[:-1])
    assert not session(store, identity, 9).found
    path.write_bytes(whole)
    assert session(store, identity, 9).found


def test_the_store_is_bounded(
    store: ManifestStore, program: bytes, identity: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STORE_FILES", 3)
    store._folder.mkdir(parents=True)
    for number in range(6):
        path = store._folder / f"{number}.manifest"
        path.write_bytes(b"old")
        os.utime(path, (number, number))
    uploading = session(store, identity, len(program))
    uploading.part(identity, program, True)
    eventually(lambda: store.idle)
    assert len(list(store._folder.glob("*.manifest"))) == 3
    assert session(store, identity, 9).found
