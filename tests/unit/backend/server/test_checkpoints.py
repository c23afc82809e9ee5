"""Sessions that are saved and restored, with a raw gRPC guest on the simulated device: what comes back, and what a save writes."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from counting_slice import definition, template
from farlane.backend.checkpoint import form
from farlane.backend.checkpoint.folder import MAGIC, Folder, read_folder
from farlane.backend.commands import session as command
from farlane.backend.device.saved import Unsaveable
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.objects.images import digest_of
from farlane.backend.security.gate import Gate
from farlane.v1 import checkpoint_pb2
from farlane.v1 import session_pb2 as pb
from raw_guest import HELLO, Wire
from saving_host import Guest, Served, save, serving, write
from waiting import eventually

PAGE = 4096
PTX = b"""
.version 7.5
.target sm_75
.address_size 64
.global .u32 counter = 40;
.visible .entry count(.param .u64 where)
{
    .reg .u64 %rd<3>; .reg .u32 %r<3>;
    ld.param.u64 %rd1, [where];
    ld.global.u32 %r1, [counter];
    add.u32 %r1, %r1, 1;
    st.global.u32 [counter], %r1;
    st.global.u32 [%rd1], %r1;
    ret;
}
\0"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, "first") as served:
        yield served


def filled(served: Served, pages: int = 8) -> Guest:
    """A session with memory, a module with a variable, streams, events, a template, a payload."""
    guest = Guest(served)
    base, digest = guest.base, digest_of(PTX)
    body = write(base + 8, b"template")
    counting = struct.pack("<IBxxx", 40, 4) + encode(
        "MEMSET", base + 5 * PAGE, 4, 4, 1, 0, 4, 1, 0
    )  # a hole in its value
    guest.does(
        encode("ALLOCATE", base, pages * PAGE),
        *(write(base + index * PAGE, bytes([index + 1]) * PAGE) for index in range(pages)),
        encode("STREAM_CREATE", 16, 1, 0, 0),
        encode("EVENT_CREATE", 16, 0),
        encode("EVENT_CREATE", 17, 0),
        encode("EVENT_RECORD", 16, 1, 0, 0),
        encode("MODULE_BEGIN", len(PTX), digest),
        encode("MODULE_CHUNK", len(PTX), 0, tail=PTX),
        encode("MODULE_END", digest),
        encode("MODULE_OPEN", 16, 0, digest),
        encode("FUNCTION_OPEN", 16, 16, 5, 0, tail=b"count"),
        encode("VARIABLE_OPEN", 16, 16, 4, 7, 0, tail=b"counter"),
        encode("PAYLOAD_KEEP", 3, 4, 4, 0, tail=b"kept"),
        launch(base),
        encode("TEMPLATE", 5, 0, len(body), 0, tail=body),
        encode("TEMPLATE", 6, 1, len(counting), 0, tail=counting),
        encode("REPEAT", 6, 24, 3, tail=struct.pack("<BBHIQQ", 0, 0, 0, 0, 100, 7)),
    )
    return guest


def launch(address: int) -> bytes:
    return encode("LAUNCH", 16, 1, 1, 1, 1, 1, 1, 1, 0, 8, tail=struct.pack("<Q", address))


def test_a_restored_session_has_all_that_it_had(served: Served, tmp_path: Path) -> None:
    guest = filled(served)
    assert guest.read(guest.base, 4) == struct.pack("<I", 41)
    save(served, "s1", tmp_path / "saved", leave=True)
    eventually(lambda: not served.host.sessions)
    served.close()
    with serving(tmp_path, "second", (tmp_path / "saved",)) as other:
        guest.comes_again(other)
        assert guest.read(guest.base + PAGE, PAGE) == bytes([2]) * PAGE
        guest.does(launch(guest.base), encode("REPEAT", 5, 0, 1), encode("WRITE_KEPT", guest.base + 16, 4, 4, 1, 16, 3))
        assert guest.read(guest.base, 20) == struct.pack("<I", 42) + bytes([1]) * 4 + b"template" + b"kept"
        assert guest.read(guest.base + 5 * PAGE, 4) == struct.pack("<I", 114)
        guest.does(encode("REPEAT", 6, 0, 1, flags=1))
        assert guest.read(guest.base + 5 * PAGE, 4) == struct.pack("<I", 121), "a loop goes on where it was"
        guest.does(encode("EVENT_RECORD", 17, 16, 0, 0))
        results = guest.does(encode("EVENT_ELAPSED", 16, 17, 1, 0)).results
        elapsed = struct.unpack_from("<f", results, 16)[0]
        assert 0 < elapsed < 60_000, "events keep their times"
        assert other.names() == ["s1"]
        guest.wire.send(goodbye=pb.Goodbye())
        eventually(lambda: not other.host.sessions)


def test_a_restored_session_is_saved_again_once_its_guest_has_come(served: Served, tmp_path: Path) -> None:
    guest = filled(served)
    save(served, "s1", tmp_path / "saved", leave=True)
    eventually(lambda: not served.host.sessions)
    served.close()
    with serving(tmp_path, "second", (tmp_path / "saved",)) as other, ThreadPoolExecutor(1) as pool:
        with pytest.raises(command.Failed, match="its guest has not come yet"):
            save(other, "s1", tmp_path / "again", wait=0.1)
        saving = pool.submit(save, other, "s1", tmp_path / "again")
        guest.comes_again(other)
        assert saving.result().pages > 8


def test_a_loop_that_the_host_leads_is_saved_at_its_end(served: Served, tmp_path: Path) -> None:
    guest = Guest(served)
    table = definition(template(guest.base))
    guest.does(encode("ALLOCATE", guest.base, PAGE), table)
    assert answer_of(guest.does(led(3, iterations=1))) == (1, 0), "it has begun one iteration, and may go on"
    with pytest.raises(command.Failed, match="a loop that the host leads is not at its end"):
        save(served, "s1", tmp_path / "saved")
    assert answer_of(guest.does(led(None))) == (3, 1), "it has left the loop"
    save(served, "s1", tmp_path / "saved", leave=True)
    eventually(lambda: not served.host.sessions)
    served.close()
    with serving(tmp_path, "second", (tmp_path / "saved",)) as other:
        guest.comes_again(other)
        assert answer_of(guest.does(led(None))) == (3, 1), "one that has left answers the same"
        assert answer_of(guest.does(led(5))) == (5, 1)


def led(count: int | None, iterations: int = 0) -> bytes:
    """A WHILE of the counting slice; None: it goes on."""
    inputs = b"" if count is None else struct.pack("<Q", count)
    return encode("WHILE", 0, 1, iterations, 0, len(inputs), tail=inputs, flags=int(count is None))


def answer_of(reply: pb.Reply) -> tuple[int, int]:
    """Iterations that a WHILE has begun, and why it has stopped."""
    begun, reason = divmod(struct.unpack("<Q", reply.results[-8:])[0], 256)
    return begun, reason


def test_an_incremental_save_writes_the_pages_that_have_changed(served: Served, tmp_path: Path) -> None:
    guest = filled(served, pages=32)
    first = save(served, "s1", tmp_path / "saved")
    assert (first.pages, first.sent) == (33, 33), "32 pages and the variable's"
    again = save(served, "s1", tmp_path / "saved")
    assert (again.pages, again.sent) == (33, 0)
    guest.does(*(write(guest.base + page * PAGE + 100, b"changed" + bytes([page])) for page in (3, 9, 30)))
    changed = save(served, "s1", tmp_path / "saved")
    assert (changed.pages, changed.sent) == (33, 3)
    guest.does(encode("MEMSET", guest.base + 4 * PAGE, PAGE, PAGE, 1, 0, 1, 1, 0))
    zero = save(served, "s1", tmp_path / "saved")
    assert (zero.pages, zero.sent) == (32, 0), "pages of zeros are not stored"
    assert len(list((tmp_path / "saved").glob("content-*.pack"))) == 3, "each save with something new has one"


def test_the_session_goes_on_where_it_was_not_let_go(served: Served, tmp_path: Path) -> None:
    guest = filled(served)
    save(served, "s1", tmp_path / "saved")
    assert guest.read(guest.base + PAGE, 4) == bytes([2]) * 4
    with pytest.raises(command.Failed, match="it is open at this host"):
        command.restore(served.url, tmp_path / "saved")
    with (
        serving(tmp_path, "second") as other,
        pytest.raises(command.Failed, match=r"its addresses, from 0x\w+ on, are taken here"),
    ):
        command.restore(other.url, tmp_path / "saved")  # of one process: the window is there


def test_what_cannot_be_saved_is_refused_and_goes_on(served: Served, tmp_path: Path) -> None:
    guest = filled(served)
    guest.does(encode("PHYSICAL_CREATE", 16, 0, 2 << 20))
    for _ in range(2):
        with pytest.raises(command.Failed, match=r"maps physical memory by itself \(cuMemCreate\)"):
            save(served, "s1", tmp_path / "saved", leave=True)
    assert not (tmp_path / "saved" / "session").exists()
    assert not list((tmp_path / "saved").iterdir())
    guest.does(encode("PHYSICAL_RELEASE", 16, 0))
    assert guest.read(guest.base + PAGE, 4) == bytes([2]) * 4
    with pytest.raises(command.Failed, match="the host has no session 's7'"):
        save(served, "s7", tmp_path / "saved")
    by_socket = Wire(served.targets[1])
    by_socket.send(hello=HELLO)
    name = by_socket.receive().welcome.session
    with pytest.raises(command.Failed, match="its guest cannot come again"):
        save(served, name, tmp_path / "saved")
    by_socket.breaks()


def test_a_session_in_the_middle_of_a_group_is_not_saved(served: Served, tmp_path: Path) -> None:
    guest = filled(served)
    guest.wire.send(tape=pb.Tape(group=2, records=launch(guest.base), last=False))
    eventually(lambda: served.host.usage[0].counts["kernels"] == 2)
    with pytest.raises(command.Failed, match=r"has not come to the end of a group in 0\.2 s"):
        command.save(served.url, "s1", tmp_path / "saved", leave=False, wait=0.2)
    guest.wire.send(tape=pb.Tape(group=2, records=launch(guest.base), last=True))
    assert guest.wire.receive().reply.last


def test_other_machines_save_nothing(served: Served, tmp_path: Path) -> None:
    filled(served)
    with pytest.raises(command.Failed, match="by a Unix socket of the host"):
        command.save(f"grpc://{served.targets[0]}", "s1", tmp_path / "saved", leave=False, wait=1.0)


def test_a_damaged_folder_is_an_error_that_says_so(served: Served, tmp_path: Path) -> None:
    filled(served)
    saved = tmp_path / "saved"
    save(served, "s1", saved)
    copy = tmp_path / "copy"
    for name, damage, why in (
        ("session", lambda data: b"", "is no saved session"),
        ("session", lambda data: data[:-1], "its bytes are not those that were written"),
        ("session", lambda data: data[:60] + bytes([data[60] ^ 1]) + data[61:], "its bytes are not those"),
        ("content-1.pack", lambda data: bytes([data[0] ^ 1]) + data[1:], "is damaged: content"),
        ("content-1.pack", lambda data: data[:-1], "is damaged: content"),
        ("content-1.pack", None, "cannot read"),
    ):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(saved, copy)
        path = copy / name
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(Unsaveable, match=why):
            read_all(copy)
    with pytest.raises(Unsaveable, match="name a folder of `farlane session save`"):
        Folder(tmp_path / "nothing").session()


def read_all(path: Path) -> list[bytes]:
    folder = Folder(path)
    return list(folder.content(form.needed(folder.session())))


def test_hostile_sessions_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    """10,000 saved sessions of which some bytes were changed: each is refused, or restored; the host goes on."""
    with serving(tmp_path, "first") as first:
        filled(first)
        save(first, "s1", tmp_path / "saved", leave=True)
        eventually(lambda: not first.host.sessions)
    data = (tmp_path / "saved" / "session").read_bytes()
    assert data.startswith(MAGIC)
    body = data[48:]
    folder = Folder(tmp_path / "saved")
    content = {form_digest(each): each for each in folder.content(form.needed(folder.session()))}
    chance = random.Random(15)
    outcomes = {"form": 0, "refused": 0, "restored": 0}
    with serving(tmp_path, "second") as second:
        checkpoints = checkpoints_of(second)
        for _ in range(10_000):
            try:
                saved = read_folder(mutated(body, chance)).session
                form.check(saved)
            except Unsaveable:
                outcomes["form"] += 1
                continue
            try:
                name = checkpoints._take(Sent(saved, content.values()), None)
            except Unsaveable:
                outcomes["refused"] += 1
                continue
            outcomes["restored"] += 1
            for restored in list(checkpoints._registry._restored.values()):
                assert checkpoints._registry.take(restored)
                second.host.end(restored.admission.session, name)
        assert second.host.sessions == 0
        assert second.host.device._budget.used == 0
    assert min(outcomes.values()) > 100, outcomes


def form_digest(data: bytes) -> bytes:
    from farlane.backend.checkpoint.blobs import digest_of as content_digest

    return content_digest(data)


def checkpoints_of(served: Served):  # type: ignore[no-untyped-def]
    from farlane.backend.server.checkpoints import Checkpoints
    from farlane.backend.server.registry import Registry

    return Checkpoints(served.host, Registry(), Gate(), 600.0)


class Sent:
    """A session, as a caller sends it (`talk.Talk`)."""

    def __init__(self, saved: checkpoint_pb2.SavedSession, content: Iterable[bytes]) -> None:
        parts = [checkpoint_pb2.RestorePart(blobs=checkpoint_pb2.Blobs(data=content))]
        parts.append(checkpoint_pb2.RestorePart(session=saved.SerializeToString()))
        self._rest = iter([*parts, checkpoint_pb2.RestorePart(end=True)])

    def send(self, data: bytes) -> None:
        raise AssertionError("it asks nothing")

    def receive(self, seconds: float) -> bytes:
        return next(self._rest).SerializeToString()


def mutated(body: bytes, chance: random.Random) -> bytes:
    changed = bytearray(body)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        kind, at = chance.randrange(4), chance.randrange(len(changed))
        if kind == 0:
            changed[at] = chance.randrange(256)
        elif kind == 1:
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del changed[at : at + chance.randrange(1, 9)]
        else:
            changed[at:at] = chance.randbytes(chance.randrange(1, 9))
    return bytes(changed)
