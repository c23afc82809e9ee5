"""The session's side: it asks the listening process for the device and for memory (channel.py), as a session of one process asks tasks.py and memory/shared.py.

Owns what the session knows of the device: whether it has it, how many granules are free. A thread of its own takes what the listener asks for, while the session's thread
waits for the device or has none of it; so granules leave a session that does not run.

The session keeps the device between two operations until the listener asks for it (`RECALL`): alone it sends nothing. Which frames it gives back it
says when it leaves the device: by then their pages are out of the file, which the listener looks at.

Locking: `_asking` around a question and its answer, `_state` around what both threads know and around what is sent without an answer.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Collection, Sequence

from farlane.backend.device.sim.memory.shared import Counts, Holder, Savings, Shared
from farlane.backend.device.sim.processes import channel
from farlane.backend.device.sim.processes.channel import MOST_FRAMES, Broken, Ends, Kind
from farlane.backend.device.sim.tasks import Interrupted, Task, Turns
from farlane.backend.memory.paging import OutOfFrames

log = logging.getLogger(__name__)


class RemoteSwitching:
    """A `shared.Switching` whose books are the listening process's: of the one session of this process. The descriptors are its own."""

    def __init__(self, memory: int, ends: tuple[int, int, int]) -> None:
        found = Ends(*ends)
        self.manager = RemoteManager(socket.socket(fileno=found.turns), socket.socket(fileno=found.memory))
        self.physical = RemotePhysical(memory, self.manager, found.file)

    def counts(self, task: Task, holder: Holder) -> Counts:
        return self.manager.counts()

    def report(self) -> dict[str, dict[str, int]]:
        return {}


class RemoteManager:
    """A `tasks.Manager`."""

    def __init__(self, turns: socket.socket, memory: socket.socket) -> None:
        self.free = 0  # granules, when the session was let in
        self.given: list[int] = []  # frames that the session has and does not use; the listener does not know that
        self._turns, self._memory = turns, memory
        self._asking = threading.Lock()
        self._state = threading.Lock()
        self._held = 0  # the number of the grant by which it has the device; 0: it has not
        self._recalled = 0  # the last grant that was asked back
        self._inside = False
        self._idle = self._said_idle = True
        self._interrupted = False
        self._stop: Callable[[], None] = lambda: None
        self._holder: Holder | None = None

    # The session's thread ---------------------------------------------------------------------------------------
    def new_task(self) -> Task:
        return Task(0)

    def enter(self, task: Task) -> None:
        with self._state:
            if self._interrupted:
                raise Interrupted
            self._idle = False
            self._inside = bool(self._held)
            if self._inside:
                return
        self._wait(Kind.ENTER)

    def leave(self, task: Task) -> None:
        with self._state:
            self._inside = False
            if self._held and self._recalled == self._held:
                self._leave()

    def step_aside(self, task: Task) -> None:
        with self._state:
            if self._recalled != self._held:
                return
            self._tell_given()
        self._wait(Kind.STEP_ASIDE)

    def rest(self, task: Task) -> None:
        with self._state:
            self._idle = True
            if not (self._held or self._said_idle):
                self._said_idle = True
                self._tell(Kind.REST)

    def prioritize(self, task: Task, priority: int) -> None:
        """The listener knows the priority, from who the guest is."""

    def set_stop(self, task: Task, stop: Callable[[], None]) -> None:
        self._stop = stop

    def take(self, count: int) -> None:
        """So many frames more are among those that are `given`. Raises OutOfFrames: or only a part of them."""
        while count > 0:
            answer = self._ask(Kind.TAKE, min(count, MOST_FRAMES))
            if answer.kind is not Kind.GRANTED:
                raise OutOfFrames(f"the sessions of the device have no {count} granules for this one")
            self.given += answer.frames
            self.free = answer.number
            count -= len(answer.frames)

    # Any thread -------------------------------------------------------------------------------------------------
    def interrupt(self, task: Task) -> None:
        with self._state:
            if not self._interrupted:
                self._interrupted = self._idle = True
                with contextlib.suppress(OSError):
                    self._memory.send(channel.packet(Kind.INTERRUPT))

    def counts(self) -> Counts:
        with self._asking:
            self._tell(Kind.COUNTS)
            try:
                numbers = channel.read_counts(channel.receive(self._turns))
            except Broken:  # the listener has gone
                return Counts(0, Turns(), Savings())
        return Counts(numbers[0], Turns(*numbers[1:6]), Savings(*numbers[6:]))

    def begin(self, holder: Holder) -> None:
        """Granules of this memory may be asked back from now on."""
        self._holder = holder
        threading.Thread(target=self._serve, name="farlane-switching", daemon=True).start()

    def end(self) -> None:
        """The session's memory ends."""
        with self._state:
            self._held = 0
        self._ask(Kind.END)
        self.given.clear()

    # Both -------------------------------------------------------------------------------------------------------
    def _serve(self) -> None:
        """What the listener asks for."""
        try:
            while data := channel.receive(self._memory):
                message = channel.read(data)
                if message.kind is Kind.RECALL:
                    self._recall(message.value)
                elif message.kind is Kind.STOP:
                    self._stop()
                else:
                    self._give_up(message.number)
        except OSError:
            pass  # the listener has gone
        finally:
            with contextlib.suppress(OSError):
                self._memory.shutdown(socket.SHUT_RDWR)

    def _recall(self, grant: int) -> None:
        with self._state:
            self._recalled = grant
            if self._held == grant and not self._inside:
                self._leave()

    def _give_up(self, granules: int) -> None:
        assert self._holder is not None
        copied = self._holder.give_up(granules, False)
        frames, self.given = self.given, []
        self._memory.send(channel.packet(Kind.GAVE_UP, 0, copied, frames))

    def _leave(self) -> None:
        self._tell_given()
        self._held, self._said_idle = 0, self._idle
        self._tell(Kind.LEAVE, int(self._idle))

    def _tell_given(self) -> None:
        while self.given:
            self._tell(Kind.GIVE, frames=self.given[:MOST_FRAMES])
            del self.given[:MOST_FRAMES]

    def _tell(self, kind: Kind, number: int = 0, frames: Sequence[int] = ()) -> None:
        restored = 0 if self._holder is None else self._holder.savings.bytes_restored
        with contextlib.suppress(OSError):  # the listener has gone: this process ends
            self._turns.send(channel.packet(kind, number, restored, frames))

    def _ask(self, kind: Kind, number: int = 0) -> channel.Message:
        with self._asking:
            self._tell(kind, number)
            data = channel.receive(self._turns)
        return channel.read(data) if data else channel.Message(Kind.INTERRUPTED, 0, 0, [])

    def _wait(self, kind: Kind) -> None:
        """Until the session has the device. Raises Interrupted."""
        answer = self._ask(kind)
        with self._state:
            self._said_idle = False
            self._inside = answer.kind is Kind.GRANTED
            self._held = answer.value if self._inside else 0
            self.free = answer.number
        if not self._inside:
            raise Interrupted


class RemotePhysical(Shared):
    """The memory that the session may use. `file`: a descriptor, which stays open."""

    def __init__(self, size: int, manager: RemoteManager, file: int) -> None:
        super().__init__(size)
        self.file = file
        self._manager = manager

    @property
    def free_granules(self) -> int:
        return self._manager.free + len(self._manager.given)

    def take(self, count: int, number: int = 0) -> list[int]:
        given = self._manager.given
        if count > len(given):
            self._manager.take(count - len(given))
        taken = given[:count]
        del given[:count]
        return taken

    def give(self, frames: Sequence[int]) -> None:
        self._manager.given += frames

    def end(self, number: int, frames: Collection[int]) -> None:
        self.bind(number, ())
        self._manager.end()

    def join(self, number: int, task: Task, holder: Holder) -> None:
        self._manager.begin(holder)

    def switched(self, previous: Task, task: Task) -> None:
        """Nothing moves at once by the rule that hosts use."""
