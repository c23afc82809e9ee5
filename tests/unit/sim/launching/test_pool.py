"""The CPU threads: how many take part, when helpers join, and that they end."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from farlane.backend.device.sim.launching.pool import Pool
from farlane.backend.jit import CompiledKernel, Launch, Worker
from threadless import threadless
from waiting import eventually

LIMIT_S = 60
LAUNCH = Launch()
_CODE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class Kernel:
    """In place of compiled code: `share` gets the address of the state of the worker that runs it, and returns a status."""

    def __init__(self, share: Callable[[int], int | None]) -> None:
        self._code = _CODE(lambda launch, worker: share(worker) or 0)
        self.address = int(ctypes.cast(self._code, ctypes.c_void_p).value or 0)

    def run(self, launch: Launch, worker: Worker) -> int:
        return int(self._code(ctypes.addressof(launch), ctypes.addressof(worker.state)))


def run(pool: Pool, share: Callable[[int], Any], own: Worker, wanted: int) -> list[int]:
    return pool.run(cast(CompiledKernel, Kernel(share)), LAUNCH, [own], wanted)


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Worker:
    """The launcher's worker. Nothing has to be laid out for what runs here."""
    monkeypatch.setattr(Worker, "reserve", lambda *arguments: None)
    return Worker()


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(2)
    yield pool
    pool.close()


def test_the_launcher_and_its_helpers_take_part_each_with_a_worker_of_its_own(own: Worker) -> None:
    pool = Pool(4)
    barrier = threading.Barrier(4, timeout=LIMIT_S)
    workers: list[int] = []

    def share(worker: int) -> None:
        barrier.wait()  # passed only when four threads are in here at once
        workers.append(worker)

    for _ in range(3):
        assert run(pool, share, own, 3) == [0, 0, 0, 0]
        assert len(set(workers)) == 4
        assert ctypes.addressof(own.state) in workers
        workers.clear()
    pool.close()


def test_a_session_s_workers_are_its_own(pool: Pool, own: Worker) -> None:
    """Kernels read what earlier ones left in their arenas, so one helper works with those of whichever session it helps."""
    sessions = [[own], [Worker()]]
    seen: list[set[int]] = [set(), set()]
    for _ in range(2):
        for session, workers in enumerate(sessions):
            barrier = threading.Barrier(2, timeout=LIMIT_S)

            def share(worker: int, seen: set[int] = seen[session], barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                seen.add(worker)

            assert pool.run(cast(CompiledKernel, Kernel(share)), LAUNCH, workers, 1) == [0, 0]
    assert [{ctypes.addressof(worker.state) for worker in workers} for workers in sessions] == seen
    assert not seen[0] & seen[1]


@pytest.mark.parametrize(("threads", "wanted"), [(1, 5), (4, 0)])
def test_without_helpers_the_launcher_runs_alone(own: Worker, threads: int, wanted: int) -> None:
    pool = Pool(threads)
    ran: list[int] = []
    run(pool, lambda worker: ran.append(threading.get_ident()), own, wanted)
    assert ran == [threading.get_ident()]


def test_fewer_helpers_than_wanted_where_the_system_starts_no_more_threads(
    own: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    pool = Pool(3)
    ran: list[int] = []
    with threadless("farlane-sim-2"):
        for _ in range(2):
            run(pool, ran.append, own, 2)
    assert ran.count(ctypes.addressof(own.state)) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "launches run on 2 of 3 threads: can't start new thread"
    ]
    barrier = threading.Barrier(3, timeout=LIMIT_S)
    run(pool, lambda worker: barrier.wait() and None, own, 2)  # later there is room again
    pool.close()


def test_busy_helpers_do_not_hold_up_a_launch_and_join_one_that_goes_on_when_they_are_free(
    pool: Pool, own: Worker
) -> None:
    release, running = threading.Event(), threading.Semaphore(0)

    def long(worker: int) -> None:
        running.release()
        release.wait(LIMIT_S)

    other = threading.Thread(target=run, args=(pool, long, Worker(), 1))
    other.start()
    for _ in range(2):
        assert running.acquire(timeout=LIMIT_S)  # the other launch's thread and the only helper are inside
    ran: list[int] = []
    assert run(pool, ran.append, own, 1) == [0]
    assert ran == [ctypes.addressof(own.state)]
    barrier = threading.Barrier(2, timeout=LIMIT_S)

    def both(worker: int) -> None:
        release.set()
        barrier.wait()

    assert run(pool, both, own, 1) == [0, 0]
    other.join()


def test_launches_that_are_over_at_once_wait_for_nobody_who_has_not_begun(pool: Pool, own: Worker) -> None:
    ran: list[int] = []
    for _ in range(2000):
        run(pool, ran.append, own, 1)
    assert ran.count(ctypes.addressof(own.state)) == 2000
    barrier = threading.Barrier(2, timeout=LIMIT_S)
    run(pool, lambda worker: barrier.wait() and None, own, 1)  # and the helper is as good as new


def test_each_one_s_status(pool: Pool, own: Worker) -> None:
    barrier = threading.Barrier(2, timeout=LIMIT_S)

    def share(worker: int) -> int:
        barrier.wait()
        return 2 if worker == ctypes.addressof(own.state) else 1

    assert run(pool, share, own, 1) == [2, 1]
    assert run(pool, lambda worker: barrier.wait() and None, own, 1) == [0, 0]


def test_what_cannot_be_laid_out_for_a_helper_ends_the_launch_and_the_helper_lives_on(
    pool: Pool, own: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reserve(worker: Worker, *arguments: object) -> None:
        if worker is not own:
            raise OSError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "reserve", reserve)
        with pytest.raises(OSError, match="no memory"):
            run(pool, lambda worker: None, own, 1)
    barrier = threading.Barrier(2, timeout=LIMIT_S)
    run(pool, lambda worker: barrier.wait() and None, own, 1)


def test_closing_ends_helpers_each_when_its_launch_is_over(own: Worker) -> None:
    pool = Pool(3)
    barrier, release = threading.Barrier(4, timeout=LIMIT_S), threading.Event()

    def share(worker: int) -> None:
        barrier.wait()
        release.wait(LIMIT_S)

    before = set(threading.enumerate())
    other = threading.Thread(target=run, args=(pool, share, own, 2))
    other.start()
    barrier.wait()
    started = set(threading.enumerate()) - before - {other}
    assert {thread.name for thread in started} == {"farlane-sim-1", "farlane-sim-2"}
    pool.close()
    assert all(thread.is_alive() for thread in started)
    release.set()
    eventually(lambda: not any(thread.is_alive() for thread in started))
