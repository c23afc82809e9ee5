"""What binding/src/lib.rs offers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

Kind = Literal["tcp", "tls", "unix", "vsock", "vsock+tls", "rings"]

class CallGone(Exception):
    """The call was cancelled, or its connection broke."""

class MessageRefused(Exception):
    """What came is no message that the host takes. Its arguments: gRPC's status code, and why."""

    args: tuple[int, str]

class Tape:
    """A Tape message."""

    @property
    def group(self) -> int: ...
    @property
    def records(self) -> bytes: ...
    @property
    def last(self) -> bool: ...

def read_tape(message: bytes) -> Tape | None:
    """A Tape, if the message is one in the form in which every protobuf library writes it."""

def restrict_files(read: Sequence[str]) -> Literal["wholly", "partly", "not"]:
    """From now on the calling thread, and those that it starts, read what lies in these folders alone, and reach no network.

    Returns how much of that the kernel enforces. Raises OSError.
    """

def restrict_calls() -> None:
    """From now on this process makes the system calls alone that replaying needs. Others fail with EPERM. Raises OSError."""

class Call:
    """One call of a guest. It belongs to the thread that serves it."""

    @property
    def number(self) -> int:
        """No other call of the process has it."""

    @property
    def method(self) -> str: ...
    @property
    def peer(self) -> str: ...
    @property
    def authorization(self) -> str | None:
        """The header of that name, where it is short enough for a token."""

    @property
    def certificate(self) -> bytes | None:
        """The guest's own (DER), which has been verified."""

    def ticket(self) -> bytes | None:
        """What the guest is to say at the rings' socket, once; None where it cannot come there."""

    def passage(self) -> bytes | None:
        """What the guest is to say, once, on another connection, which is handed on (`hand`)."""

    def keep(self, grace: float) -> None:
        """From now on the call outlives its connection, for so many seconds. Once, before anything is sent."""

    def resume(self, by: Call, received: int, ticket: bytes | None = None) -> None:
        """The call goes on with the connection of another one; returns when that carries no more of it.

        Args:
            by: its `finish` does nothing from now on.
            received: so many messages of the call its guest has.
            ticket: that of a process which has the session's messages; told to the guest.

        Raises:
            CallGone: the call has ended, or its guest has come once more.
        """

    def end(self, status: int, details: str) -> None:
        """From any thread: the call is cancelled, and its guest is given this status, whatever `finish` says.

        What its own thread waits for ends with CallGone, whose text is `details`.
        """

    def wake(self) -> None:
        """From any thread: the call's own thread gets a TimeoutError from `receive`, now or the next time."""

    def receive(self, timeout: float | None = None) -> Tape | bytes | None:
        """The next message: a Tape, the bytes of another one, or None when the guest will send no more.

        Raises:
            CallGone: the call was cancelled or the connection broke.
            MessageRefused: what came is too large, or no message.
            TimeoutError: nothing came in time.
        """

    def send(self, message: bytes, *, flush: bool = True) -> None:
        """Sends a message once the one before is on its way, so that a slow guest holds up its own session.

        Args:
            flush: now; else with what the thread does next, which must be `receive`, `send` or `finish`.

        Raises:
            CallGone: the call was cancelled or the connection broke.
        """

    def finish(self, status: int, details: str = "") -> None:
        """Ends the call with a gRPC status, whatever has become of it. The last thing done with it."""

class ProtocolError(Exception):
    """The guest broke a rule of tape.md or session.proto; the message names it."""

class DeadTransport(Exception):
    """The guest is gone: the stream was cancelled or the connection broke."""

PlainHole = tuple[int, int, int]
"""Its place in the body, its width, the record that it lies in."""

PlainHeader = tuple[int, int, int, int, int, int]
"""A column's kind, lag, number, width, and where its values begin and end in the columns' bytes."""

PlainRecord = tuple[int, int, int, int, "PlainTemplate | None", Sequence[PlainHeader]]
"""Its place in the body, length, operation code, flags; of a REPEAT, its template and columns."""

PlainTemplate = tuple[int, bytes, Sequence[PlainHole], Sequence[PlainRecord]]
"""A template's number, body, holes and records."""

class Columns:
    """The checked columns of a REPEAT."""

    def fill(self, matrix: npt.NDArray[np.uint64], first: int) -> None:
        """Writes the values of iterations from `first` on into the rows of a matrix, which has a column for each iteration."""

class Payloads:
    """What one session has kept, of `capacity` raw bytes at most (protos/tape.md, "Payloads")."""

    def __init__(self, capacity: int) -> None: ...
    def __len__(self) -> int: ...
    @property
    def bytes_kept(self) -> int: ...
    def check(self, number: int, raw_bytes: int) -> None:
        """Raises ProtocolError: so many bytes may not be kept under this number."""

    def keep(self, number: int, data: bytes | memoryview) -> None:
        """Keeps raw bytes. Raises ProtocolError."""

    def get(self, number: int) -> memoryview:
        """The bytes. Raises ProtocolError."""

    def numbers(self) -> list[int]:
        """The numbers that something is kept under, in order."""

    def places(self, numbers: npt.NDArray[np.uint64], matrix: npt.NDArray[np.uint64]) -> None:
        """Writes where these lie, and how many bytes each has, into the two rows of a matrix: 0 and 0 where it is not kept.

        Valid until one is dropped.
        """

    def clear(self) -> None: ...

class Ranges:
    """Disjoint ranges of addresses that copies may touch."""

    def __init__(self) -> None: ...
    def add(self, start: int, end: int) -> None:
        """Adds [start, end), which overlaps none."""

    def remove(self, start: int) -> None:
        """Takes the range out that starts there, if there is one."""

    def clear(self) -> None: ...
    def __len__(self) -> int: ...

class Budget:
    """The memory of a device, which its sessions share. A session's quota may be more than is left of it. Any thread may use it."""

    def __init__(self, limit: int) -> None: ...
    @property
    def limit(self) -> int: ...
    @property
    def used(self) -> int: ...
    def take(self, size: int) -> bool:
        """Whether so much was left."""

    def give(self, size: int) -> None: ...

Part = tuple[int, int, str, int]
"""Start, size, label and access of an allocation."""

class AllocationMap:
    """Which parts of a window belong to what: device/allocations.py has the words for it."""

    def __init__(self, ranges: Ranges) -> None: ...
    def __len__(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Without mapped physical memory."""

    @property
    def version(self) -> int:
        """Counts changes."""

    def changed(self) -> None: ...
    def since(self, address: int) -> list[Part]: ...
    def add(self, allocation: Part) -> None: ...
    def take(self, start: int) -> Part | None: ...
    def remember(self, ended: Part) -> None: ...
    def ended(self) -> list[Part]: ...
    def holding(self, address: int) -> Part | None: ...
    def overlapping(self, start: int, end: int) -> Part | None: ...
    def around(self, address: int) -> tuple[Part | None, Part | None]:
        """The last one that starts at the address or before, and the first one behind it."""

    def clear(self) -> None: ...

class Pages:
    """The pages of a window: what of it is there, and what the system has given for it.

    Args:
        base, size: the window, whole granules that are reserved and not accessible.
        flags: address of a byte for each page, all zero.
        file: what the window maps from its beginning on, as shared memory; None: memory of this process's own.
    """

    def __init__(self, base: int, size: int, flags: int, file: int | None = None) -> None: ...
    @property
    def used_address(self) -> int:
        """Where the number of pages in use lies for each granule, a u16."""

    def map(self, start: int, end: int, flags: int, huge: bool) -> None:
        """Makes whole pages accessible; those that were not in use read as zero. `huge`: with huge pages. Raises OSError."""

    def unmap(self, start: int, end: int) -> None:
        """Takes whole pages out of use. Raises OSError."""

    def discard(self, start: int, size: int) -> None:
        """Gives whole pages' memory back to the system. They read as zero afterwards. Raises OSError."""

    def settle(self, start: int, end: int) -> None:
        """Gives the memory of freed pages of whole granules back."""

    def set_used(self, start: int, end: int, used: bool) -> None:
        """Whole granules are all in use, or not at all."""

Refusal = Literal["range", "quota", "count", "clash", "budget", "unknown"]

class Room:
    """What a guest may allocate in a window: the rules and books of allocations. Nothing has changed where something is refused.

    `hooks`: who maps pages instead of the window itself, by `map_pages(first, last, flags, label)`, `unmap_pages(first, last)` and
    `zero(address, size)`; their exceptions are raised. Without hooks OSError is.

    Args:
        base, size: the guest's part of the window.
        alignment: of the guest's addresses.
        count: allocations at once.
        budget, pages: of a device that has memory.
    """

    def __init__(
        self,
        allocations: AllocationMap,
        base: int,
        size: int,
        quota: int,
        *,
        alignment: int = 1,
        count: int = ...,
        budget: Budget | None = None,
        pages: Pages | None = None,
    ) -> None: ...
    @property
    def used(self) -> int:
        """Of the quota."""

    def set_quota(self, quota: int) -> None: ...
    def attend(self, attended: bool) -> None:
        """Whether the plane leaves allocations to Python."""

    def allocate(self, address: int, size: int, hooks: object | None) -> Refusal | None: ...
    def free(self, address: int, hooks: object | None) -> Refusal | None: ...
    def back(self, allocation: Part, flags: int, hooks: object | None) -> Refusal | None:
        """Memory for something that is not the guest's."""

    def release(self, address: int, hooks: object | None) -> Refusal | None:
        """Ends it."""

    def take(self, size: int) -> Refusal | None:
        """Takes memory without an address from quota and budget."""

    def give(self, size: int) -> None: ...
    def reset(self) -> None:
        """Nothing of the quota is used: everything was released."""

class Event:
    """An event: when it was recorded.

    Args:
        handle: the driver's, of a device that has one.
        timed: its time may be asked for.
    """

    def __init__(self, handle: int = 0, *, timed: bool = True) -> None: ...
    @property
    def handle(self) -> int: ...
    @property
    def timed(self) -> bool: ...
    @property
    def alive(self) -> bool: ...
    def end(self) -> None:
        """It has been destroyed."""
    @property
    def nanoseconds(self) -> int | None:
        """When it was recorded, on the monotonic clock; None: never."""

    @property
    def given(self) -> bool:
        """Whether this was given to it, so that a driver knows nothing of it."""

    def give(self, nanoseconds: int) -> None:
        """It was recorded then: on another host, or by compiled code, which says when."""

    def record(self) -> None:
        """It is now."""

LIVE_LIMIT: int
"""Handles of one kind that are alive at once."""

class Handles:
    """What the guest's handles of one kind stand for, for the plane and for Python. Permanent ones cannot be released.

    A `Stream` or an `Event` is the plane's as well; any other object is only kept.
    """

    def __init__(self, kind: str, permanent: Mapping[int, Any] | None = None) -> None: ...
    @property
    def kind(self) -> str: ...
    def claim(self, handle: int) -> None:
        """Raises ProtocolError, or CudaError 2: the handle may not be minted now."""

    def fill(self, handle: int, value: Any) -> None: ...
    def poison(self, handle: int, code: int, message: str) -> None:
        """Making the object has failed with this error, and so does what uses the handle."""

    def get(self, handle: int) -> Any:
        """Raises CudaError: the handle is unknown (400), or poisoned (the error that poisoned it)."""

    def release(self, handle: int) -> Any:
        """Takes the handle out. None: it was poisoned, and its error has been reported. Raises CudaError 400."""

    def forget(self, handle: int) -> None:
        """Takes the handle out, whether it is there or not."""

    def __contains__(self, handle: int) -> bool: ...
    def poisoned(self) -> list[tuple[int, int, str]]:
        """Those whose making has failed: the handle, the error's code and message."""

    def live(self) -> list[int]:
        """The handles that the guest has minted and that stand for something, in order."""

    def clear(self, permanent: Mapping[int, Any] | None = None) -> None:
        """Back to the permanent handles; these instead, where they are given."""

class Gate:
    """Held while device memory is used: a lock whose `acquire` has a limit of seconds."""

    def __enter__(self) -> None: ...
    def __exit__(self, *_raised: object) -> None: ...
    def share(self, place: Place) -> None:
        """From now on operations wait for their place. Once, before the first one."""
    def step_aside(self) -> None:
        """At a boundary inside of an operation: lets other sessions have the device, where they are to have it."""
    def acquire(self, timeout: float) -> bool:
        """Whether it came to that in so many seconds."""

    def release(self) -> None: ...

class Entry:
    """A launch that the plane can do by itself."""

class Page:
    """What a session and the listener share. `shared`: with another process, by a file in memory. Raises OSError."""

    def __init__(self, *, shared: bool = False) -> None: ...
    @property
    def descriptor(self) -> int | None:
        """Of a page that is `shared`."""

class Place:
    """A session's place on a device whose time sessions share: its operations wait for it."""

    @staticmethod
    def attach(page: int, bell: int) -> Place:
        """Of a session whose listener is another process. The descriptors are the place's. Raises OSError."""
    @property
    def word(self) -> int:
        """The address of the word that kernels look at between two blocks."""
    def add(self, nanoseconds: int) -> None:
        """Other threads have worked for the session for so long."""
    @property
    def crowded(self) -> bool:
        """Whether other sessions wait."""
    def run(self, run: int, first: int, second: int) -> int:
        """Calls machine code, `int run(first, second)`, that does not call back; where it gives way to others, if the session works without end."""
    @property
    def waited(self) -> int:
        """Nanoseconds for which the session has waited."""

class Process:
    """A child of this process that has a session, where sessions share a device's memory. Raises OSError: there is no such process."""

    def __init__(self, id: int) -> None: ...
    @property
    def stopped(self) -> bool: ...
    def look(self, granted: bool) -> int:
        """Nanoseconds of the processors that it has used since the last look. `granted`: it was to use them."""
    def stop_overrun(self) -> bool:
        """Stops it where it has used too much without being granted that. Whether it was stopped now."""
    def enter(self) -> None:
        """It is its turn: it goes on."""

class Scheduler:
    """Gives a device's places to sessions, by their priorities and their service. Raises OSError.

    Args:
        places: sessions that the device runs at once.
    """

    def __init__(self, places: int) -> None: ...
    @property
    def bell(self) -> int:
        """The descriptor that sessions in other processes ring."""
    def join(
        self,
        page: Page,
        *,
        priority: int = 0,
        weight: float = 1.0,
        share: float | None = None,
        owner: str = "",
        process: int | None = None,
    ) -> int:
        """A session, which gets a number.

        Args:
            share: the part of the time that all sessions of `owner` may use together.
            process: the session's own, which is stopped where it works on without a place.

        Raises:
            OSError: there is no such process.
        """
    def place(self, page: Page) -> Place:
        """Of a session of this process."""
    def leave(self, number: int) -> None:
        """The session has ended."""
    def served(self, number: int) -> tuple[int, int, int, bool] | None:
        """Nanoseconds on the device, and of waiting; how often its process was stopped; whether it waits now."""
    def close(self) -> None: ...

class Direct:
    """What the plane does by itself for one context: copies, sets, events, synchronizations, launches that are laid out.

    Made so, it is for devices whose work is over when a call returns.

    Args:
        ranges: what copies may touch.
        backed: addresses are memory of this process; else reads show zeros.
        room: what the guest may allocate; without one, allocations are the context's.
    """

    def __init__(self, ranges: Ranges, backed: bool, room: Room | None = None) -> None: ...
    @staticmethod
    def on_driver(ranges: Ranges, cuda: Cuda) -> Direct:
        """On a device behind a driver, which does the work later."""

    def counts(self) -> dict[str, int]:
        """What the plane has done by itself so far: launches, writes, reads, copies, sets, records, waits, synchronizations, queries,
        graphs, objects (made or ended)."""
    @property
    def enabled(self) -> bool: ...
    @property
    def gate(self) -> Gate:
        """Held by the plane while it uses device memory."""
    launches: int
    """So far, by the plane and by Python."""
    @property
    def nanoseconds(self) -> int:
        """For how long the plane has worked here by itself, or waited for the device."""

    def disable(self) -> None:
        """From now on everything is the context's own to do. From any thread."""

    def changed(self) -> None:
        """What was laid out is so no longer. From any thread."""

    def interrupt(self) -> None:
        """Ends the kernel that runs, and leaves all later launches to the context. From any thread."""

    def speak(self) -> None:
        """There is output to be fetched at the end of the group. From any thread."""

    def take_printing(self) -> bool:
        """Whether the plane has issued launches that may print, since this was last asked."""

    def counted(self) -> Entry:
        """A launch of which nothing is left to do but to count it."""

    def lay_out(
        self,
        run: int,
        launch: int,
        worker: int,
        parameters: int,
        size: int,
        *,
        next_block: int,
        end_block: int,
        grid_id: int,
        abort: int,
        provisional: bool,
        limit: int,
        calls_back: bool,
        keep: object,
    ) -> Entry:
        """A launch that needs only its parameters and its number.

        Args:
            run: address of the kernel, `int run(launch, worker)`, which returns 0 at its end.
            launch, worker: addresses of what it is called with.
            parameters, size: where the parameters go, and how many bytes they are.
            next_block, grid_id, abort: offsets in the launch, of u64, u64 and u32.
            provisional: how long it runs is told (`account`).
            limit: nanoseconds; a launch that takes longer is told, and is the last one.
            keep: stays as long as the entry; `failure` and `account` are given it.
        """

    def lay_out_kernel(
        self,
        cuda: Cuda,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: Stream,
        parameters: int,
        size: int,
        pointers: int,
        *,
        prints: bool,
        keep: object,
    ) -> Entry:
        """A launch by the driver that needs only its parameters.

        Args:
            function: the driver's handle.
            parameters, size: where the parameters go, and how many bytes they are.
            pointers: address of an array with the address of each parameter.
            prints: output is to be fetched at the end of the group.
            keep: stays as long as the entry.
        """

#: The driver's functions that `Cuda` needs, by the names under which the library exports them.
CUDA_FUNCTIONS: list[str]

class DriverFault(Exception):
    """A call of the driver that has failed. Its arguments: the CUresult, and the function's name."""

    args: tuple[int, str]

class Stream:
    """A stream.

    Args:
        handle: the driver's, of a device that has one.
        blocking: the legacy default stream and it wait for each other.
    """

    def __init__(self, handle: int = 0, *, blocking: bool = True) -> None: ...
    @property
    def handle(self) -> int: ...
    @property
    def blocking(self) -> bool: ...
    @property
    def alive(self) -> bool: ...
    def end(self) -> None:
        """It has been destroyed."""

class Cuda:
    """A session's share of a GPU, as the plane works on it. In the CUDA context of the calling thread.

    Args:
        addresses: of CUDA_FUNCTIONS, in a library that stays loaded.
        context: the CUDA context, which the plane makes its thread's.
    """

    def __init__(self, addresses: Mapping[str, int], context: int) -> None: ...
    def set_context(self, context: int) -> None:
        """The CUDA context is another one from now on."""

    def set_collects(self, collects: bool) -> None:
        """Whether a synchronization of the device is the session's own to do, which then gives memory back."""

    def follow(self, stream: Stream) -> None:
        """Work is about to be issued to the stream: if it is a non-blocking one, it waits for copies from the guest. Raises DriverFault."""

    def wrote(self, stream: Stream) -> None:
        """A copy from the guest was issued to the stream."""

    def synchronized(self) -> None:
        """All work was waited for."""

    def freed(self, start: int, end: int) -> None:
        """[start, end) is free, and work may still use it."""

    def allocated(self, start: int, end: int, streams: list[int]) -> None:
        """[start, end) is allocated: what may still use an earlier allocation of it goes before what is issued from now on. `streams` are the
        handles of the non-blocking ones. Raises DriverFault."""

    def put(self, data: Buffer, stream: int) -> int:
        """Keeps at most 1 MiB in pinned memory, and returns its address: the caller issues the copy to that stream next. Raises DriverFault."""

    def leave(self, stream: Stream) -> None:
        """The stream ends: nothing can be recorded on it later. All streams wait for what it has yet to do. Raises DriverFault."""

    def end(self) -> None:
        """Gives pinned memory and events back. No work runs, or the CUDA context is lost."""

class Body:
    """A loop's body on a device behind a driver, step by step.

    Args:
        steps: of each its plan.Kind, whether it is answered, its stream, its event, its launch, and where in an iteration's results
            its bytes go.
    """

    def __init__(
        self, direct: Direct, steps: Sequence[tuple[int, bool, Stream | None, Event | None, Entry | None, int]]
    ) -> None: ...
    def run(
        self,
        operands: Sequence[tuple[int, int]],
        results: tuple[int, int] | None,
        begin: tuple[int, int],
        end: tuple[int, int],
    ) -> tuple[int, int, tuple[int, str] | None] | None:
        """Does the steps from one place (iteration, step) to another.

        Args:
            operands: of each step the address of all iterations' operands, one after another, and the bytes of one.
            results: the same of results, where a step reads.

        Returns:
            None: it has. Else the place of a step that is not done and not for the plane, or has failed with (CUresult, function).
        """

class Graph:
    """An instantiated CUDA graph of several iterations.

    Args:
        context: handle of the CUDA context.
        nodes: of each its handle, its plan.Kind, the operands that the driver has, its structure as the driver takes it, places of
            operands in that (offset in the operands, in the structure, bytes), and of a kernel where its parameters go, and their size.
    """

    def __init__(
        self,
        direct: Direct,
        cuda: Cuda,
        executable: int,
        context: int,
        nodes: Sequence[tuple[int, int, bytes, bytes, Sequence[tuple[int, int, int]], tuple[int, int]]],
    ) -> None: ...
    def launch(self, operands: Sequence[tuple[int, int]], first: int, stream: int) -> int | None:
        """Launches it with the operands of the iterations from `first` on, its nodes changed where they differ.

        Args:
            operands: as of `Body.run`, for each node of an iteration.

        Returns:
            None: it has. Else a node that the caller has to change first, and say so (`told`).

        Raises:
            DriverFault: nothing was launched.
        """

    def told(self, index: int, operands: bytes) -> None:
        """The driver has these operands of a node now."""

class Standing:
    """How a session stands: the replay and the control plane keep each other informed here. Any thread may ask."""

    def __init__(self) -> None: ...
    @property
    def lost(self) -> bool:
        """The context whose records follow is lost."""

    @property
    def interrupted(self) -> bool: ...
    def interrupt(self) -> None:
        """The guest is gone."""

    def object_ended(self) -> None:
        """An object has ended to which launches may have been resolved."""

    def set_poisoned(self, poisoned: bool) -> None:
        """Whether some allocation was refused: what touches one is the control plane's to judge."""

class Replay:
    """The replay of one session. One thread at a time.

    Args:
        control: what does not concern the hot path (farlane.backend.control).
        message_bytes: of records in one message, at most.
        credit_bytes: of records in one group.
        spans: it keeps when it did what.
    """

    def __init__(
        self,
        control: object,
        direct: Direct,
        standing: Standing,
        payloads: Payloads,
        streams: Handles,
        events: Handles,
        *,
        tape_version: int,
        message_bytes: int,
        credit_bytes: int,
        spans: bool = False,
    ) -> None: ...
    def counts(self) -> dict[str, int]:
        """What metrics show of the session: groups, round_trips, records, bytes_in, bytes_out, loops_repeated, loops_led, iterations.
        From any thread."""
    def spans(self, first: int = 0, most: int = ...) -> tuple[list[tuple[str, int, int, int]], int, int]:
        """When it did what, from span `first` on, `most` at most: kind (group, launch, repeat, while, operation), number, begin and end in
        nanoseconds of CLOCK_MONOTONIC; how many spans there are, and how many beyond the bound were not kept. From any thread."""

    @property
    def remembered(self) -> int:
        """Launches that are remembered."""

    def plans(self, template: int) -> list[Any]:
        """What the control plane has made of a template, so that a device repeats it."""

    def submit(self, group: int, records: bytes, last: bool, sink: Callable[[bytes], None]) -> None:
        """Replays one message of a group; `sink` is given the replies, each a message.

        Raises:
            ProtocolError: the guest broke a rule; everything before has been replayed.
            Exception: what the control plane ends the session with.
        """

    def converse(self, call: Call, rest: Callable[[], bool] | None = None) -> bytes | None:
        """Replays what comes as Tapes; gives the next message that is none. None: the guest sends no more.

        Args:
            rest: called when nothing is left to be replayed, again and again until it returns true.

        Raises:
            ProtocolError, Exception: as `submit`.
            CallGone, MessageRefused: as the call's `receive` and `send`.
            Paused: `ask` was called, and the session is between two groups.
        """

class Paused(Exception):
    """Another thread has work for the session's own, between two groups."""

def ask(call: Call) -> None:
    """From any thread: the session's own is to pause between two groups."""

def answered(call: Call) -> None:
    """It need not pause any more."""

def save_replay(
    replay: Replay,
) -> tuple[int, int | None, list[bytes], list[tuple[int, bytes, int]], tuple[int, int] | None, int]:
    """What a saved session keeps of its replay: the number of the next group, the context where the guest has named one, TEMPLATE and SLICE
    records, of each template what a continued REPEAT goes on with, the slice and the answer of the last WHILE, and nanoseconds of work.

    Raises ValueError: why it cannot be saved now.
    """

def restore_replay(
    replay: Replay,
    group: int,
    context: int | None,
    continuing: Sequence[tuple[int, bytes, int]],
    decided: tuple[int, int] | None,
) -> None:
    """The replay, which has replayed the records, goes on where a saved one stopped. Raises ProtocolError."""

def save_call(call: Call) -> tuple[int, int, list[bytes]] | None:
    """What the call has of its session's messages: Tapes received, the number of the first message that is not confirmed, and those
    messages. None: its guest cannot come again."""

def restore_call(
    call: Call,
    grace: float,
    received: int,
    first: int,
    unconfirmed: Sequence[bytes],
    shown: int,
    ticket: bytes | None = None,
) -> None:
    """The call goes on with a saved session's messages, of which its guest has `shown`. `ticket`: of the process that has
    the session's messages. Raises CallGone."""

def leave(call: Call) -> None:
    """The session has left the host: its guest's connection is cut. The last thing done with the call."""

class Security:
    """What encrypted connections are made with, from files in PEM, which are read again when they have changed.

    Args:
        certificate: the host's, and those that it is signed by.
        authorities: which sign guests' certificates.

    Raises:
        OSError: a file cannot be used.
    """

    def __init__(self, certificate: str, key: str, authorities: str) -> None: ...
    @staticmethod
    def fixed(certificate: bytes, key: bytes) -> Security:
        """With one certificate and its key, in PEM. Guests show none. Raises OSError."""

class Server:
    """A server that listens.

    Args:
        listeners: (file descriptor of a listening socket, what it is for); they are the server's from now on.
        serve: is given each call, on a thread of the call's own, and finishes it.
        cancelled: is given a call that was cancelled while its thread is busy elsewhere.
        warn: is given a text for the log.
        hand: is given each connection that shows the ticket of a call: the call, a descriptor to be closed, and what it
            is for. The call's session is in another process.
        calls: at once; the next one is turned away.
        connections: at once.
        message_bytes: the largest message.
        keepalive: seconds that a guest may be silent before it is asked whether it is there.
        keepalive_timeout: seconds that it may take to answer.
        security: for listeners that are "tls" or "vsock+tls"; without it there are none.

    Raises:
        OSError: there is no thread for it.
    """

    def __init__(
        self,
        listeners: Sequence[tuple[int, Kind]],
        serve: Callable[[Call], None],
        cancelled: Callable[[Call], None],
        warn: Callable[[str], None],
        *,
        calls: int,
        connections: int,
        message_bytes: int,
        keepalive: float,
        keepalive_timeout: float,
        hand: Callable[[Call, int, Kind], None] | None = None,
        security: Security | None = None,
    ) -> None: ...
    @property
    def calls(self) -> int:
        """Calls that are open."""

    def adopt(self, descriptor: int, kind: Kind) -> None:
        """Serves a connection that another process has handed on; the descriptor is the server's from now on."""

    def stop(self, grace: float) -> None:
        """Takes no new connections, gives the open calls `grace` seconds, then cancels them and waits until they are gone."""
