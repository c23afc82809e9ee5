"""The CPU threads: how many take part, and what happens when one of them fails."""

from __future__ import annotations

import threading
import time
from typing import cast

import pytest
from farlane.backend.device.sim.pool import THREADS_VARIABLE, Pool, thread_count
from farlane.backend.jit import Worker
from threadless import threadless

OWN = cast(Worker, object())  # the launcher's worker is only passed on


def test_the_launcher_and_its_helpers_take_part_each_with_a_worker_of_its_own() -> None:
    pool = Pool(4)
    barrier = threading.Barrier(4, timeout=60)
    workers: list[object] = []

    def share(worker: Worker) -> None:
        barrier.wait()  # passed only when four threads are in here at once
        workers.append(worker)

    pool.run(share, OWN, 3)
    assert len({id(worker) for worker in workers}) == 4
    assert OWN in workers
    pool.close()


@pytest.mark.parametrize(("threads", "helpers"), [(1, 5), (4, 0)])
def test_without_helpers_the_launcher_runs_alone(threads: int, helpers: int) -> None:
    pool = Pool(threads)
    ran: list[int] = []
    pool.run(lambda worker: ran.append(threading.get_ident()), OWN, helpers)
    assert ran == [threading.get_ident()]


def test_fewer_helpers_than_wanted_where_the_system_starts_no_more_threads(caplog: pytest.LogCaptureFixture) -> None:
    pool = Pool(3)
    ran: list[Worker] = []
    with threadless("farlane-sim-2"):
        for _ in range(2):
            pool.run(ran.append, OWN, 2)
    assert ran.count(OWN) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "launches run on 2 of 3 threads: can't start new thread"
    ]
    barrier = threading.Barrier(3, timeout=60)
    pool.run(lambda worker: barrier.wait() and None, OWN, 2)  # later there is room again
    pool.close()


def test_busy_helpers_do_not_hold_up_a_launch() -> None:
    pool = Pool(2)
    release, running = threading.Event(), threading.Semaphore(0)

    def long(worker: Worker) -> None:
        running.release()
        release.wait(60)

    other = threading.Thread(target=pool.run, args=(long, OWN, 1))
    other.start()
    running.acquire()
    running.acquire()  # the other launch's thread and the only helper are inside
    ran: list[Worker] = []
    pool.run(ran.append, OWN, 1)
    assert ran == [OWN]
    release.set()
    other.join()
    time.sleep(0.05)
    assert ran == [OWN]  # the helper came too late and was turned away
    pool.close()


def test_a_failure_in_a_helper_is_raised_by_the_launch_and_the_helper_lives_on() -> None:
    pool = Pool(2)
    barrier = threading.Barrier(2, timeout=60)

    def share(worker: Worker) -> None:
        barrier.wait()
        if worker is not OWN:
            raise LookupError("from the helper")

    for _ in range(3):
        with pytest.raises(LookupError, match="from the helper"):
            pool.run(share, OWN, 1)
    pool.close()


def test_a_failure_in_the_launcher_waits_for_the_helpers() -> None:
    pool = Pool(2)
    barrier = threading.Barrier(2, timeout=60)
    ended: list[bool] = []

    def share(worker: Worker) -> None:
        barrier.wait()
        if worker is OWN:
            raise LookupError("from the launcher")
        time.sleep(0.1)
        ended.append(True)

    with pytest.raises(LookupError, match="from the launcher"):
        pool.run(share, OWN, 1)
    assert ended == [True]
    pool.close()


def test_thread_count_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    assert thread_count() == 3
    for wrong in ("0", "-1", "many", "", "99999"):
        monkeypatch.setenv(THREADS_VARIABLE, wrong)
        with pytest.raises(ValueError, match=THREADS_VARIABLE):
            thread_count()
    monkeypatch.delenv(THREADS_VARIABLE)
    assert thread_count() >= 1
