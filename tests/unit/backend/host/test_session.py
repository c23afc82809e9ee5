"""Groups, bounds and the end of a session; admission and refusal by the host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from farlane.backend.device.base import CudaError
from farlane.backend.device.null import NullDevice
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import DIGESTS_LIMIT, TAPE_VERSION_MAX, Greeting, Reason, Refused
from farlane.backend.host.host import Host
from farlane.backend.host.session import CREDIT_BYTES, MESSAGE_BYTES, priority_of
from farlane.backend.objects.images import digest_of
from session_replies import answers

FENCE = encode("FENCE", 7, 0)


def drain(session: Any, group: int, records: bytes, last: bool = True) -> list[Any]:
    return list(answers(session, group, records, last))


class TestGroups:
    def test_only_the_last_message_is_acknowledged(self, guest: Any) -> None:
        assert drain(guest.session, 1, FENCE, last=False) == []
        (reply,) = drain(guest.session, 1, FENCE)
        assert reply.last
        assert len(reply.results) == 32

    @pytest.mark.parametrize("group", [0, 2, 2**64 - 1])
    def test_out_of_order(self, guest: Any, group: int) -> None:
        with pytest.raises(ProtocolError, match="group"):
            drain(guest.session, group, FENCE)

    def test_a_group_is_not_repeated(self, guest: Any) -> None:
        drain(guest.session, 1, FENCE)
        with pytest.raises(ProtocolError):
            drain(guest.session, 1, FENCE)

    def test_an_empty_group(self, guest: Any) -> None:
        (reply,) = drain(guest.session, 1, b"")
        assert (reply.last, reply.error, reply.results) == (True, 0, b"")

    def test_results_of_many_messages_do_not_pile_up(self, guest: Any) -> None:
        fences = FENCE * 60_000
        replies = drain(guest.session, 1, fences, last=False)
        assert sum(len(reply.results) for reply in replies) == 60_000 * 16

    def test_device_time_is_reported(self, guest: Any) -> None:
        guest.context.device_nanoseconds = 12345
        assert drain(guest.session, 1, b"")[0].device_nanoseconds == 12345


class TestBounds:
    def test_message(self, guest: Any) -> None:
        with pytest.raises(ProtocolError, match="message"):
            drain(guest.session, 1, bytes(MESSAGE_BYTES + 8))

    def test_largest_record_fits_a_message(self) -> None:
        assert MESSAGE_BYTES >= (1 << 20) + 4096

    def test_credit(self, guest: Any) -> None:
        data = bytes(1 << 20)
        guest.submit(encode("ALLOCATE", guest.base, 1 << 20))
        record = encode("WRITE", guest.base, 0, len(data), 1, 1, len(data), tail=data)
        for _ in range(CREDIT_BYTES // len(record)):
            drain(guest.session, 2, record, last=False)
        with pytest.raises(ProtocolError, match="acknowledgement"):
            drain(guest.session, 2, record, last=False)


class TestEnd:
    def full(self, guest: Any) -> None:
        guest.open_module()
        guest.open_function()
        guest.submit(
            encode("ALLOCATE", guest.base, 1 << 20), encode("STREAM_CREATE", 16, 0, 0, 0), encode("EVENT_CREATE", 16, 0)
        )

    def test_everything_is_released(self, guest: Any, host: Host) -> None:
        self.full(guest)
        context, resources = guest.context, guest.session.resources
        host.end(guest.session, "test")
        assert context.closed
        assert context.allocations == 0
        for table in (resources.streams, resources.events, resources.modules, resources.functions, resources.variables):
            assert not table.live()
            assert 1 not in table  # a default stream
        assert host.sessions == 0
        with pytest.raises(ProtocolError):
            drain(guest.session, guest.group + 1, FENCE)
        host.end(guest.session, "again")

    def test_a_device_that_fails_to_close(
        self, guest: Any, host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.full(guest)

        def close() -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(guest.context, "close", close)
        host.end(guest.session, "test")
        assert host.sessions == 0
        assert "failed to close" in caplog.text
        assert all(entry.pins == 0 for entry in host.images._entries.values())

    def test_half_an_upload(self, guest: Any, host: Host) -> None:
        guest.submit(encode("MODULE_BEGIN", 100, bytes(32)), encode("MODULE_CHUNK", 3, 0, tail=b"abc"))
        host.end(guest.session, "test")
        assert host.images.bytes_held == 0

    def test_in_the_middle_of_a_read(self, guest: Any, host: Host) -> None:
        size = 8 << 20
        guest.submit(encode("ALLOCATE", guest.base, size))
        record = encode("READ", guest.base, 0, size, 1, 1, 5)
        replies = guest.session.submit(guest.group + 1, record, True)
        next(replies)
        replies.close()
        host.end(guest.session, "the guest is gone")
        assert guest.context.closed

    def test_the_host_ends_what_is_left(self, new_guest: Callable[[], Any], host: Host) -> None:
        guests = [new_guest() for _ in range(3)]
        assert host.sessions == 3
        host.close()
        assert all(guest.context.closed for guest in guests)


class TestAdmission:
    def refused(self, host: Host, greeting: Greeting) -> Refused:
        before = host.sessions
        with pytest.raises(Refused) as caught:
            host.admit(greeting)
        assert host.sessions == before
        return caught.value

    def test_welcome(self, host: Host) -> None:
        admission = host.admit(Greeting(1, 7))
        assert admission.tape_version == TAPE_VERSION_MAX
        assert admission.quota == host.description.total_memory
        assert admission.window.size >= admission.quota

    @pytest.mark.parametrize(
        ("asked", "granted", "otherwise", "has"),
        [
            (None, None, 9, 0),  # a guest without a token has the lowest unless it asks
            (7, None, 9, 7),
            (7, None, 3, 3),
            (None, 5, 0, 5),  # a token's own, whatever those without one may have
            (2, 5, 0, 2),
            (8, 5, 9, 5),
            (12, 40, 9, 9),
            (None, -3, 9, 0),
        ],
    )
    def test_priority(self, asked: int | None, granted: int | None, otherwise: int, has: int) -> None:
        assert priority_of(asked, granted, otherwise) == has

    def test_a_guest_of_version_2_is_spoken_to_as_one_of_version_1(self, host: Host) -> None:
        assert host.admit(Greeting(1, 2)).tape_version == 1

    def test_checks_that_the_device_does_not_have(self, host: Host) -> None:
        refused = self.refused(host, Greeting(1, 2, checks=("memory",)))
        assert refused.reason is Reason.DEVICE
        assert refused.message == "this device cannot check kernels (memory)"

    @pytest.mark.parametrize(("low", "high", "older"), [(TAPE_VERSION_MAX + 1, 9, "host"), (2, 2, "guest")])
    def test_no_common_version(self, host: Host, low: int, high: int, older: str) -> None:
        refused = self.refused(host, Greeting(low, high, client_version="9.9"))
        assert refused.reason is Reason.VERSION
        assert "9.9" in refused.message
        assert refused.message.endswith(f"upgrade the {older}")

    @pytest.mark.parametrize(
        "greeting",
        [
            Greeting(0, 0),
            Greeting(0, 1),
            Greeting(2, 1),
            Greeting(1, 1, mode="sideways"),
            Greeting(1, 1, module_digests=[b"short"]),
            Greeting(1, 1, module_digests=[bytes(32)] * (DIGESTS_LIMIT + 1)),
            Greeting(1, 2, checks=["memory"] * 17),
        ],
    )
    def test_malformed(self, host: Host, greeting: Greeting) -> None:
        assert self.refused(host, greeting).reason is Reason.MALFORMED

    def test_busy(self) -> None:
        host = Host(NullDevice(), session_limit=2)
        first = host.admit(Greeting(1, 1))
        host.admit(Greeting(1, 1))
        refused = self.refused(host, Greeting(1, 1))
        assert refused.reason is Reason.BUSY
        assert "2 sessions" in refused.message
        host.end(first.session, "test")
        host.admit(Greeting(1, 1))
        host.close()

    @pytest.mark.parametrize("error", [CudaError(2, "no room"), ZeroDivisionError("bug")])
    def test_device_that_cannot(self, host: Host, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
        def open_context(quota: int) -> Any:
            raise error

        monkeypatch.setattr(host.device, "open_context", open_context)
        assert self.refused(host, Greeting(1, 1)).reason is Reason.DEVICE

    def test_a_context_is_not_lost_when_the_session_cannot_be_made(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = []
        real = host.device.open_context

        def open_context(quota: int) -> Any:
            context = real(quota)
            monkeypatch.setattr(context, "default_stream", lambda number: 1 // 0)
            opened.append(context)
            return context

        monkeypatch.setattr(host.device, "open_context", open_context)
        assert self.refused(host, Greeting(1, 1)).reason is Reason.DEVICE
        assert opened[0].closed
        assert host.sessions == 0

    def test_known_modules_stay_for_the_session(self, host: Host, new_guest: Callable[[], Any]) -> None:
        host.images.capacity = 1000
        first = new_guest()
        first.open_module(image=b"k" * 900)
        host.end(first.session, "test")
        known, unknown = digest_of(b"k" * 900), digest_of(b"u")
        second = host.admit(Greeting(1, 1, module_digests=[unknown, known]))
        assert list(second.known_modules) == [known]
        third = new_guest()
        with pytest.raises(AssertionError):
            third.open_module(image=b"x" * 900)  # no room: the other is promised
        record = encode("MODULE_OPEN", 16, 0, known)
        assert drain(second.session, 1, record)[0].error == 0

    def test_quota(self) -> None:
        host = Host(NullDevice(), quota=1 << 20)
        admission = host.admit(Greeting(1, 1))
        base = admission.window.base
        assert admission.quota == 1 << 20
        records = encode("ALLOCATE", base, 1 << 19) + encode("ALLOCATE", base + (1 << 19), (1 << 19) + 1)
        (reply,) = drain(admission.session, 1, records)
        assert (reply.error, reply.sticky) == (2, False)
        host.close()


def test_sessions_do_not_see_each_other(new_guest: Callable[[], Any]) -> None:
    first, second = new_guest(), new_guest()
    assert first.base != second.base
    first.submit(encode("ALLOCATE", first.base, 256), encode("STREAM_CREATE", 16, 0, 0, 0))
    assert second.submit(encode("STREAM_SYNCHRONIZE", 16, 5)).errors() == [400]
    assert second.submit(encode("READ", first.base, 0, 4, 1, 1, 5)).errors() == [1]
    assert second.submit(encode("FREE", first.base)).error == 1


def test_one_sessions_failure_is_its_own(new_guest: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    guests = [new_guest() for _ in range(8)]

    def fault(*args: Any, **kwargs: Any) -> None:
        raise CudaError(700, "fault", sticky=True)

    guests[3].context.direct.disable()
    monkeypatch.setattr(guests[3].context, "synchronize", fault)
    outcomes: dict[int, list[int]] = {}

    def work(number: int) -> None:
        outcomes[number] = [
            error
            for _ in range(50)
            for error in guests[number].submit(encode("DEVICE_SYNCHRONIZE", 7, 0), FENCE).errors()
        ]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, errors in outcomes.items():
        assert set(errors) == ({700} if number == 3 else {0})
        assert len(errors) == 100
