"""Places on a device: who has one, who is asked to leave, and what each session is charged for."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from farlane.backend.plane import Direct, Page, Place, Ranges, Scheduler

SECONDS = 30


class Session:
    """A session's gate, which a thread of its own goes through."""

    def __init__(self, scheduler: Scheduler, **terms: object) -> None:
        self.page = Page()
        self.place = scheduler.place(self.page)
        self.direct = Direct(Ranges(), backed=False)
        self.gate = self.direct.gate
        self.gate.share(self.place)
        self.number = scheduler.join(self.page, **terms)  # type: ignore[arg-type]
        self.entered, self.leave = threading.Event(), threading.Event()

    @property
    def is_asked_to_stop(self) -> bool:
        return bool(ctypes.c_uint32.from_address(self.place.word).value)

    def work(self) -> threading.Thread:
        """Works until told to leave."""
        self.entered.clear()
        self.leave.clear()

        def run() -> None:
            with self.gate:
                self.entered.set()
                self.leave.wait(SECONDS)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def end(self, thread: threading.Thread) -> None:
        self.leave.set()
        thread.join(SECONDS)
        assert not thread.is_alive()


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    found = Scheduler(1)
    yield found
    found.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_one_session_alone_is_never_asked(scheduler: Scheduler) -> None:
    session = Session(scheduler)
    thread = session.work()
    assert session.entered.wait(SECONDS)
    time.sleep(0.05)
    assert not session.is_asked_to_stop
    session.end(thread)
    assert scheduler.served(session.number)[0] > 0  # type: ignore[index]


def test_another_one_waits_until_the_place_is_left(scheduler: Scheduler) -> None:
    first, second = Session(scheduler), Session(scheduler)
    one = first.work()
    assert first.entered.wait(SECONDS)
    two = second.work()
    until(lambda: first.is_asked_to_stop)  # after its slice
    assert not second.entered.is_set()
    first.end(one)
    assert second.entered.wait(SECONDS)
    assert not second.is_asked_to_stop
    assert scheduler.served(second.number)[1] > 0  # type: ignore[index]
    second.end(two)


def test_a_higher_priority_comes_first(scheduler: Scheduler) -> None:
    first, low, high = Session(scheduler), Session(scheduler), Session(scheduler, priority=4)
    one = first.work()
    assert first.entered.wait(SECONDS)
    waits = low.work()
    until(lambda: scheduler.served(low.number)[3])  # type: ignore[index]
    goes = high.work()
    until(lambda: scheduler.served(high.number)[3])  # type: ignore[index]
    first.end(one)
    assert high.entered.wait(SECONDS)
    time.sleep(0.05)
    assert not low.entered.is_set()
    high.end(goes)
    assert low.entered.wait(SECONDS)
    low.end(waits)


def test_a_bounded_share_is_used_up(scheduler: Scheduler) -> None:
    session = Session(scheduler, share=1e-6, owner="a token")
    thread = session.work()
    assert session.entered.wait(SECONDS)
    until(lambda: session.is_asked_to_stop)
    session.end(thread)


def test_sessions_of_one_owner_use_up_their_share_together(scheduler: Scheduler) -> None:
    first = Session(scheduler, share=1e-6, owner="a token")
    second = Session(scheduler, share=1e-6, owner="a token")
    thread = first.work()
    assert first.entered.wait(SECONDS)
    until(lambda: first.is_asked_to_stop)
    first.end(thread)
    other = second.work()
    assert not second.entered.wait(0.2)
    second.direct.interrupt()
    second.end(other)


def one_works_and_one_waits(scheduler: Scheduler) -> tuple[Session, threading.Thread, Session, threading.Thread]:
    """Two sessions and their threads, where there is one place."""
    first, second = Session(scheduler), Session(scheduler)
    one = first.work()
    assert first.entered.wait(SECONDS)
    two = second.work()
    until(lambda: scheduler.served(second.number)[3])  # type: ignore[index]
    return first, one, second, two


def test_a_session_that_is_interrupted_waits_no_longer(scheduler: Scheduler) -> None:
    first, one, second, two = one_works_and_one_waits(scheduler)
    second.direct.interrupt()
    assert second.entered.wait(SECONDS)
    second.end(two)
    first.end(one)


def test_a_session_that_has_ended_asks_no_longer(scheduler: Scheduler) -> None:
    first, one, second, two = one_works_and_one_waits(scheduler)
    scheduler.leave(first.number)
    assert second.entered.wait(SECONDS)
    assert scheduler.served(first.number) is None
    assert not first.is_asked_to_stop
    for session, thread in ((first, one), (second, two)):
        session.end(thread)


def test_another_process_waits_as_well(scheduler: Scheduler) -> None:
    """Its side is mapped from descriptors, and it rings the scheduler's bell."""
    first = Session(scheduler)
    page = Page(shared=True)
    assert page.descriptor is not None
    place = Place.attach(os.dup(page.descriptor), os.dup(scheduler.bell))
    direct = Direct(Ranges(), backed=False)
    direct.gate.share(place)
    number = scheduler.join(page, process=os.getpid())
    one = first.work()
    assert first.entered.wait(SECONDS)
    entered = threading.Event()

    def run() -> None:
        with direct.gate:
            entered.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    until(lambda: first.is_asked_to_stop)
    assert not entered.is_set()
    first.end(one)
    assert entered.wait(SECONDS)
    thread.join(SECONDS)
    scheduler.leave(number)


def test_a_session_of_this_process_takes_no_descriptor() -> None:
    """What is left of one that has ended, until Python's collector finds it, then holds none either."""
    before = len(os.listdir("/proc/self/fd"))
    page = Page()
    assert page.descriptor is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_that_is_not_there(scheduler: Scheduler) -> None:
    with pytest.raises(OSError, match="No such process"):
        scheduler.join(Page(), process=(1 << 22) + 1)


def test_the_machine_code_of_a_session_that_works_without_end_gives_way(scheduler: Scheduler) -> None:
    """Its thread does not; and who is to have the place need not wait for the code's end."""
    libc = ctypes.CDLL(None)
    policy_of, wait = (
        ctypes.cast(each, ctypes.c_void_p).value or 0 for each in (libc.sched_getscheduler, libc.sem_wait)
    )
    semaphore = ctypes.create_string_buffer(32)
    assert libc.sem_init(semaphore, 0, 0) == 0
    first, second = Session(scheduler), Session(scheduler, priority=1)
    policies: list[int] = []
    ended = threading.Event()

    def run() -> None:
        with first.gate:
            policies.append(first.place.run(policy_of, 0, 0))
            first.place.add(10_000_000)
            first.gate.step_aside()
            policies.append(first.place.run(policy_of, 0, 0))
            policies.append(os.sched_getscheduler(0))
            first.entered.set()
            first.place.run(wait, ctypes.addressof(semaphore), 0)
            ended.set()

    one = threading.Thread(target=run, daemon=True)
    one.start()
    assert first.entered.wait(SECONDS)
    two = second.work()
    assert second.entered.wait(SECONDS)
    assert not ended.is_set()
    assert libc.sem_post(semaphore) == 0
    one.join(SECONDS)
    assert ended.is_set()
    second.end(two)
    usual = os.sched_getscheduler(0)
    assert policies == [usual, os.SCHED_IDLE, usual]
