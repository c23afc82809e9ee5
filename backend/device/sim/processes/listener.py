"""The listening process's side: the books of a device whose sessions are processes, and what it does about those that do not keep to them.

Owns for each such session its sockets, its file, and which frames of 2 MiB it has been given (channel.py). Who has the device when is tasks.py's here too, who has how much
memory memory/shared.py's: for them a session of another process is a task and a holder like any other.

A session is ended, and the others go on, when it
- says what is no message, or what it may not say now, such as asking for memory without having the device;
- does not give up granules in time, or others than it has;
- holds more in its file than it has been given. That is looked at when it leaves the device, when it has given something up, and for all sessions whenever one takes memory.

What a session that has ended had is free at once: its file is emptied here. A session that keeps the device is one whose kernel does not end: it is asked to stop, and not
forced to. One that computes without the device is stopped until its turn comes (overrun.py).

Threads: one for each socket of a session. Locking: what a session has been given changes on the thread of its `turns`, which waits while it gives up, and on that of the
session which takes, under the lock of memory/shared.py.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import astuple

from farlane.backend.device.sim.memory.shared import Counts, LocalSwitching, Savings
from farlane.backend.device.sim.memory.window import HIGHEST, LOWEST
from farlane.backend.device.sim.processes import channel
from farlane.backend.device.sim.processes.channel import MOST_FRAMES, Broken, Ends, Kind, Message
from farlane.backend.device.sim.processes.overrun import Process, Watch, Watched
from farlane.backend.device.sim.tasks import Interrupted, Task, TaskManager
from farlane.backend.memory.paging import PAGE_2M, OutOfFrames
from farlane.backend.system.mappings import FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, libc

GIVE_UP_SECONDS = 10.0  # for a session to give up granules, and for each of them
GIVE_UP_EACH_SECONDS = 0.05
FILE_BYTES = HIGHEST - LOWEST  # no window is larger; what a file holds is bounded by what the session has been given

log = logging.getLogger(__name__)


class SharedDevice(LocalSwitching):
    """What the sessions of several processes share."""

    def __init__(self, memory: int) -> None:
        super().__init__(memory)
        self.watch = Watch()
        self._lock = threading.Lock()
        self._members: set[Member] = set()

    def new_member(self) -> Member:
        """For a process that is about to start. Raises OSError."""
        return Member(self)

    def check(self) -> None:
        """Ends sessions that hold more than they have been given."""
        with self._lock:
            members = list(self._members)
        for member in members:
            member.check()

    def began(self, member: Member) -> None:
        with self._lock:
            self._members.add(member)

    def ended(self, member: Member) -> None:
        with self._lock:
            self._members.discard(member)


class Member:
    """The session of one process: a `shared.Holder`. Made before the process is, without a session."""

    def __init__(self, device: SharedDevice) -> None:
        self.savings = Savings()
        self._device = device
        self._manager: TaskManager = device.manager
        self._turns, turns = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._memory, memory = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._theirs = (turns, memory)
        self._file = _new_file()
        #: What its process gets.
        self.ends = Ends(turns.fileno(), memory.fileno(), self._file)
        self._task = Task(0)
        self._process: Watched | None = None
        self._number = 0
        self._over: Callable[[str | None], None] = _nothing_to_end
        self._frames: set[int] = set()
        self._inside = self._rested = self._interrupted = self._ended = False
        self._grant = 0
        self._recalled = 0  # the last grant that was asked back
        self._asked = False  # to give up granules
        self._answers: queue.SimpleQueue[Message | Broken | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def started(self) -> None:
        """The process has its ends."""
        for end in self._theirs:
            end.close()

    def begin(self, process: Process, over: Callable[[str | None], None]) -> None:
        """The process has a session. `over`: ends it and its process, for the reason that is given (None: it says no more); from any thread."""
        self._over = over
        self._task = self._manager.new_task()
        self._task.recall = self._recall
        self._manager.set_stop(self._task, self._stop)
        physical = self._device.physical
        self._number = physical.new_task()
        physical.join(self._number, self._task, self)
        self._device.began(self)
        self._process = Watched(self._manager, self._task, process)
        self._device.watch.add(self._process)
        for target in (self._serve, self._listen):
            thread = threading.Thread(target=target, name="farlane-switching", daemon=True)
            thread.start()
            self._threads.append(thread)

    def prioritize(self, priority: int) -> None:
        self._manager.prioritize(self._task, priority)
        if self._process is not None:
            self._process.prioritize(priority)

    def interrupt(self) -> None:
        """The session is going away: it waits for the device no longer."""
        self._manager.interrupt(self._task)

    def release(self) -> None:
        """The process may end, or has ended, and gets no more signals. Idempotent."""
        if self._process is not None:
            self._device.watch.remove(self._process)
            self._process.release()

    @property
    def counts(self) -> Counts:
        stops = 0 if self._process is None else self._process.stops
        return Counts(self._task.priority, self._task.counts, self.savings, stops)

    def close(self) -> None:
        """The process has ended."""
        self.started()
        for end in (self._turns, self._memory):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.interrupt()
        self.release()
        for thread in self._threads:
            thread.join()
        self._end()
        for end in (self._turns, self._memory):
            end.close()
        os.close(self._file)

    # As a holder: the threads of sessions that take ---------------------------------------------------------------
    @property
    def granules(self) -> int:
        return len(self._frames)

    def give_up(self, granules: int, unchanged: bool) -> int:
        copied = 0
        try:
            while granules > 0:
                part = min(granules, MOST_FRAMES)
                copied += self._give_up(part)
                granules -= part
        except Broken as error:
            self._fail(str(error))
        except EOFError:
            self._fail(None)
        return copied

    def restore(self) -> None:
        """Not by the rule that hosts use."""

    def _give_up(self, granules: int) -> int:
        assert self._process is not None
        self._asked = True
        try:
            with self._process.spare():
                self._memory.send(channel.packet(Kind.GIVE_UP, granules), socket.MSG_DONTWAIT)
                answer = self._answers.get(timeout=GIVE_UP_SECONDS + granules * GIVE_UP_EACH_SECONDS)
        except queue.Empty:
            raise Broken(f"it did not give up {granules} granules of device memory in time") from None
        except BlockingIOError:
            raise Broken("it does not read what it is asked for") from None
        except OSError:
            answer = None
        finally:
            self._asked = False
        if answer is None:
            raise EOFError
        if isinstance(answer, Broken):
            raise answer
        if len(answer.frames) != granules:
            raise Broken(f"it gave up {len(answer.frames)} granules of device memory in the place of {granules}")
        if answer.value > granules * PAGE_2M:
            raise Broken(f"it says that it saved {answer.value} bytes of {granules} granules")
        self._given_back(answer.frames)
        self._require_within()
        return answer.value

    def check(self) -> None:
        """Ends the session where it holds more than it has been given. It is given nothing meanwhile."""
        try:
            self._require_within()
        except Broken as error:
            self._fail(str(error))

    def _require_within(self) -> None:
        most = len(self._frames) * PAGE_2M
        if not self._ended and (held := channel.held_bytes(self._file)) > most:
            raise Broken(f"it holds {held >> 10} KiB of device memory, and has been given {most >> 10}")

    def _given_back(self, frames: list[int]) -> None:
        if not self._frames.issuperset(frames) or len(set(frames)) != len(frames):
            raise Broken("it gave back granules that it does not have")
        self._frames.difference_update(frames)
        self._device.physical.give(frames)

    # The session's turns ------------------------------------------------------------------------------------------
    def _serve(self) -> None:
        try:
            while data := channel.receive(self._turns):
                self._take(channel.read(data))
            self._fail(None)
        except Broken as error:
            self._fail(str(error))
        except OSError:
            self._fail(None)

    def _take(self, message: Message) -> None:
        kind = message.kind
        if self._ended and kind is not Kind.COUNTS:
            raise Broken(f"a message {kind.name} behind the end of its memory")
        if message.frames and kind is not Kind.GIVE:
            raise Broken(f"a message {kind.name} with frames")
        if kind is Kind.COUNTS:
            counts = self.counts
            numbers = counts.priority, *astuple(counts.turns), *astuple(counts.savings)
            self._turns.send(channel.pack_counts(numbers))
            return
        if kind is Kind.REST and not (self._inside or self._rested):
            self._rested = True
            self._manager.rest(self._task)
            return
        if kind is Kind.END:
            self._end()
            self._answer(Kind.GRANTED)
            return
        if self._inside is (kind is Kind.ENTER) or kind not in _WITH_DEVICE:
            raise Broken(f"a message {kind.name}, {'with' if self._inside else 'without'} the device")
        if message.value < self.savings.bytes_restored:
            raise Broken("fewer bytes have come back to it than before")
        self.savings.bytes_restored = message.value
        if kind is Kind.ENTER:
            self._enter(self._manager.enter)
        elif kind is Kind.STEP_ASIDE:
            self._require_within()
            self._enter(self._manager.step_aside)
        elif kind is Kind.TAKE:
            self._give_frames(message.number)
        elif kind is Kind.GIVE:
            self._given_back(message.frames)
        else:
            self._require_within()
            self._inside, self._rested = False, bool(message.number)
            if self._rested:
                self._manager.rest(self._task)
            self._manager.leave(self._task)

    def _enter(self, enter: Callable[[Task], object]) -> None:
        assert self._process is not None
        self._grant += 1
        self._rested = False
        self._process.asks()
        try:
            enter(self._task)
        except Interrupted:
            self._inside = False
            self._answer(Kind.INTERRUPTED)
        else:
            self._inside = True
            self._process.go_on()
            self._answer(Kind.GRANTED)

    def _give_frames(self, count: int) -> None:
        if not 1 <= count <= MOST_FRAMES:
            raise Broken(f"it asks for {count} granules at once")
        self._device.check()
        try:
            frames = self._device.physical.take(count, self._number)
        except OutOfFrames:
            self._answer(Kind.REFUSED)
            return
        self._frames.update(frames)
        self._answer(Kind.GRANTED, frames)

    def _answer(self, kind: Kind, frames: list[int] | None = None) -> None:
        free = self._device.physical.free_granules
        self._turns.send(channel.packet(kind, free, self._grant, frames or ()))

    # What it says by itself ---------------------------------------------------------------------------------------
    def _listen(self) -> None:
        broken: Broken | None = None
        try:
            while data := channel.receive(self._memory):
                message = channel.read(data)
                if message.kind is Kind.GAVE_UP and self._asked:
                    self._asked = False
                    self._answers.put(message)
                elif message.kind is Kind.INTERRUPT and not self._interrupted:
                    self._interrupted = True
                    self.interrupt()
                else:
                    raise Broken(f"a message {message.kind.name} that was not asked for")
        except Broken as error:
            broken = error
        self._answers.put(broken)  # before this waits for who waits for it
        self._fail(None if broken is None else str(broken))

    # Called by the manager, under its lock ------------------------------------------------------------------------
    def _recall(self) -> None:
        if self._recalled != self._grant:
            self._recalled = self._grant
            channel.send_now(self._memory, channel.packet(Kind.RECALL, 0, self._grant))

    def _stop(self) -> None:
        channel.send_now(self._memory, channel.packet(Kind.STOP))

    # The end ------------------------------------------------------------------------------------------------------
    def _fail(self, why: str | None) -> None:
        if not self._ended:
            self._over(why)
        self._end()

    def _end(self) -> None:
        """Everything that it has is free. Idempotent."""
        with self._device.physical.sharing:
            if self._ended or not self._number:
                return
            self._ended = True
            self._device.ended(self)
            self.interrupt()
            self._manager.leave(self._task)
            frames, self._frames = self._frames, set()
            punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
            if libc.fallocate(self._file, punch, 0, FILE_BYTES):
                log.error("the device memory of a session that has ended cannot be given back to the system")
            self._device.physical.end(self._number, frames)
        self._manager.recall()  # more is free than the session inside knows of


_WITH_DEVICE = frozenset((Kind.ENTER, Kind.STEP_ASIDE, Kind.TAKE, Kind.GIVE, Kind.LEAVE))


def _nothing_to_end(why: str | None) -> None:
    """There is no session yet."""


def _new_file() -> int:
    """A descriptor of memory whose size nothing changes."""
    file = os.memfd_create("farlane-device", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, FILE_BYTES)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(file)
        raise
    return file
