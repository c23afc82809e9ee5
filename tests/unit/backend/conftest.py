"""A guest for tests of the backend: writes tapes, reads results, knows nothing of gRPC."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from farlane.backend.device.null import NullContext, NullDevice
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting
from farlane.backend.host.host import Admission, Host
from farlane.backend.loops import plans
from farlane.backend.objects.images import digest_of
from session_replies import answers

STATUS, VALUE, DATA = 1, 2, 3
IMAGE = b"any image: the null device looks into none"


@dataclass
class Result:
    kind: int
    slot: int
    error: int
    value: int = 0
    offset: int = 0
    data: bytes = b""


@dataclass
class Outcome:
    """What a group was answered with."""

    results: list[Result] = field(default_factory=list)
    replies: int = 0
    error: int = 0
    sticky: bool = False
    message: str = ""

    def errors(self) -> list[int]:
        return [result.error for result in self.results]


def parse_results(raw: bytes) -> list[Result]:
    """Result records by the letter of tape.md, written apart from the code under test."""
    results = []
    at = 0
    while at < len(raw):
        length, kind, flags, slot, error = struct.unpack_from("<IHHIi", raw, at)
        assert length % 8 == 0
        assert length >= 16
        assert flags == 0
        assert at + length <= len(raw)
        result = Result(kind, slot, error)
        if kind == VALUE:
            assert length == 24
            (result.value,) = struct.unpack_from("<Q", raw, at + 16)
        elif kind == DATA:
            result.offset, size, reserved = struct.unpack_from("<QII", raw, at + 16)
            assert reserved == 0
            assert length == 32 + size + -size % 8
            result.data = raw[at + 32 : at + 32 + size]
            assert not any(raw[at + 32 + size : at + length])
        else:
            assert kind == STATUS
            assert length == 16
        results.append(result)
        at += length
    return results


class Guest:
    """One session, used as a guest's shim would."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.session = admission.session
        self.base = admission.window.base
        self.group = 0

    @property
    def context(self) -> NullContext:
        context = self.session.resources.context
        assert isinstance(context, NullContext)
        return context

    def submit(self, *records: bytes, messages: int = 1) -> Outcome:
        """One group, its records spread over some messages."""
        self.group += 1
        outcome = Outcome()
        share = -(-len(records) // messages) or 1
        parts = [b"".join(records[at : at + share]) for at in range(0, len(records), share)] or [b""]
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            for reply in answers(self.session, self.group, part, last):
                outcome.replies += 1
                outcome.results += parse_results(reply.results)
                assert reply.group == self.group
                if reply.last:
                    assert last
                    outcome.error, outcome.sticky, outcome.message = reply.error, reply.sticky, reply.error_message
        return outcome

    def open_module(self, module: int = 16, image: bytes = IMAGE) -> None:
        digest = digest_of(image)
        outcome = self.submit(
            encode("MODULE_BEGIN", len(image), digest),
            encode("MODULE_CHUNK", len(image), 0, tail=image),
            encode("MODULE_END", digest),
            encode("MODULE_OPEN", module, 0, digest),
        )
        assert outcome.error == 0

    def open_function(self, function: int = 16, module: int = 16, name: bytes = b"kernel") -> None:
        assert self.submit(encode("FUNCTION_OPEN", function, module, len(name), 0, tail=name)).error == 0


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host(NullDevice())
    yield host
    host.close()
    assert host.sessions == 0


@pytest.fixture
def new_guest(host: Host) -> Callable[..., Guest]:
    return lambda checks=(): Guest(host.admit(Greeting(1, TAPE_VERSION_MAX, program="test", checks=checks)))


@pytest.fixture
def guest(new_guest: Callable[[], Guest], request: pytest.FixtureRequest) -> Guest:
    """A guest of the null device. Where a test puts functions of its own into the context, the plane does nothing by itself."""
    guest = new_guest()
    if "monkeypatch" in request.fixturenames and "early_plans" not in request.fixturenames:
        guest.context.direct.disable()
    return guest


@pytest.fixture
def early_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops are planned long before it is worth it, so that short ones show what plans do."""
    monkeypatch.setattr(plans, "BY_PLANE", plans.BY_PYTHON)
