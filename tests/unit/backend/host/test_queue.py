"""The queue of a full host: who comes next, and what becomes of a guest that gives up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from farlane.backend.device.null import NullDevice
from farlane.backend.host.applicant import Applicant
from farlane.backend.host.greeting import Greeting, Reason, Refused
from farlane.backend.host.host import Host
from farlane.backend.host.queue import Place, Queue
from farlane.backend.plane import CallGone

SECONDS = 30


def nothing() -> None:
    pass


def test_priority_comes_before_arrival() -> None:
    queue = Queue(4)
    low, high, later = queue.join(0, nothing), queue.join(3, nothing), queue.join(3, nothing)
    assert [queue.place(each) for each in (high, later, low)] == [Place(1, 3), Place(2, 3), Place(3, 3)]
    queue.leave(high)
    assert [queue.place(each) for each in (later, low)] == [Place(1, 2), Place(2, 2)]


def test_all_are_woken_when_places_change() -> None:
    queue, woken = Queue(2), []
    first = queue.join(0, lambda: woken.append(1))
    queue.join(0, lambda: woken.append(2))
    assert queue.is_full
    woken.clear()
    queue.leave(first)
    assert woken == [2]
    assert not queue.is_full


class Guest:
    """A guest that asks for a session on a thread of its own, and waits."""

    def __init__(self, host: Host, priority: int = 0) -> None:
        self.places: list[Place] = []
        self.session: str | None = None
        self.gone = False
        self.gives_up = False
        self._woken = threading.Semaphore(0)
        self.told = threading.Event()
        self._host = host
        self._thread = threading.Thread(target=self._ask, args=(priority,), daemon=True)
        self._thread.start()

    def _ask(self, priority: int) -> None:
        try:
            admission = self._host.admit(Greeting(1, 6, priority=priority), Applicant(patience=self))
            self.session = admission.session.name
        except CallGone:
            self.gone = True

    def wake(self) -> None:
        self._woken.release()

    def wait(self, place: Place) -> None:
        self.places.append(place)
        self.told.set()
        assert self._woken.acquire(timeout=SECONDS)
        if self.gives_up:
            raise CallGone("gave up")

    def reaches(self, place: Place) -> bool:
        """Waits until it has been given this place."""
        ends = time.monotonic() + SECONDS
        while self.places[-1] != place and time.monotonic() < ends:
            time.sleep(0.001)
        return self.places[-1] == place

    def give_up(self) -> None:
        self.gives_up = True
        self.wake()

    def join(self) -> None:
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


@pytest.fixture
def new_guest() -> Callable[..., Guest]:
    def make(host: Host, priority: int = 0) -> Guest:
        guest = Guest(host, priority)
        assert guest.told.wait(SECONDS)
        return guest

    return make


def test_a_full_host_lets_guests_in_by_priority(new_guest: Callable[..., Guest]) -> None:
    host = Host(NullDevice(), session_limit=1, queue=2)
    running = host.admit(Greeting(1, 6)).session
    low, high = new_guest(host, 0), new_guest(host, 5)
    assert (low.places[0], high.places[0]) == (Place(1, 1), Place(1, 2))
    one_more = Guest.__new__(Guest)  # it does not come to wait
    with pytest.raises(Refused) as refused:
        host.admit(Greeting(1, 6), Applicant(patience=one_more))
    assert refused.value.reason is Reason.BUSY
    assert "2 guests wait" in refused.value.message
    host.end(running, "over")
    high.join()
    assert high.session is not None
    assert low.session is None
    assert low.reaches(Place(1, 1))
    host.end(next(each for each in host._sessions() if each.name == high.session), "over")
    low.join()
    assert low.session is not None
    assert host.waiting == 0


def test_who_gives_up_leaves_the_queue(new_guest: Callable[..., Guest]) -> None:
    host = Host(NullDevice(), session_limit=1, queue=2)
    host.admit(Greeting(1, 6))
    guest = new_guest(host)
    assert host.waiting == 1
    guest.give_up()
    guest.join()
    assert guest.gone
    assert (host.waiting, host.sessions) == (0, 1)


def test_a_guest_that_does_not_wait_is_refused() -> None:
    host = Host(NullDevice(), session_limit=1, queue=2)
    host.admit(Greeting(1, 6))
    with pytest.raises(Refused) as refused:
        host.admit(Greeting(1, 6))
    assert refused.value.reason is Reason.BUSY
