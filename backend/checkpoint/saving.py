"""A session that pauses, as data.

Owns the enumeration of what a session has (`Resources`, the replay, the call), and what of it cannot be saved.

On the thread that holds the session (pausing.py): nothing of it changes meanwhile.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from farlane.backend.checkpoint.blobs import Offers, Reader, Run, count_of
from farlane.backend.device.saved import SavedContext, Unsaveable
from farlane.backend.host.session import Session
from farlane.backend.objects.handles import HandleTable
from farlane.backend.objects.resources import Resources
from farlane.backend.plane import Call, save_call
from farlane.v1 import checkpoint_pb2 as pb

VERSION = 1


class Captured(NamedTuple):
    """A session as data, without whose it is."""

    session: pb.SavedSession
    pages: int


def send_ahead(session: Session, reader: Reader) -> None:
    """Memory as it is now, while the session runs."""
    reader.read(session.resources.context)


def capture(session: Session, call: Call, offers: Offers, reader: Reader) -> Captured:
    """The session, which pauses. Raises Unsaveable."""
    resources = session.resources
    _require(resources)
    context = resources.context.save()
    counted = save_call(call)
    if counted is None:
        raise Unsaveable(
            "its guest cannot come again: it has come by shared memory or a socket file, or the host has no --grace"
        )
    try:
        replay = session.save_replay()
    except ValueError as error:
        raise Unsaveable(str(error)) from None
    saved = pb.SavedSession(
        version=VERSION,
        saved_at=time.time_ns(),
    )
    received, first, unconfirmed = counted
    saved.messages.received, saved.messages.first = received, first
    saved.messages.unconfirmed.extend(offers.offer(message) for message in unconfirmed)
    saved.replay.group = replay.group
    if replay.context is not None:
        saved.replay.context = replay.context
    saved.replay.records.extend(replay.records)
    for template, columns, following in replay.continuing:
        saved.replay.continuing.add(template=template, columns=columns, next=following)
    if replay.decided is not None:
        saved.replay.decided_slice, saved.replay.decided_answer = replay.decided
    _device(saved.device, context, replay.nanoseconds)
    _objects(saved, resources, offers)
    runs = reader.read(resources.context)
    saved.pages.extend(_run(run) for run in runs)
    return Captured(saved, count_of(runs))


def _require(resources: Resources) -> None:
    if resources.images.uploading:
        raise Unsaveable("its guest is sending an image of code")
    physical = resources.physical
    if physical.handles.live() or physical.handles.poisoned() or physical.used:
        raise Unsaveable("it maps physical memory by itself (cuMemCreate)")


def _run(run: Run) -> pb.SavedSession.PageRun:
    return pb.SavedSession.PageRun(address=run.address, digests=run.digests)


def _device(device: pb.SavedSession.DeviceState, context: SavedContext, nanoseconds: int) -> None:
    device.base, device.size = context.window.base, context.window.size
    for address, size in context.allocations:
        device.allocations.add(address=address, size=size)
    for base, pieces in context.areas.items():
        device.areas.add(base=base).parts.extend(pb.SavedSession.Part(**piece._asdict()) for piece in pieces)
    device.limits.update(context.limits)
    if context.heap is not None:
        device.heap.base, device.heap.size = context.heap.base, context.heap.size
        device.heap.blocks.extend(pb.SavedSession.Range(start=start, end=end) for start, end in context.heap.used)
        device.heap.free.extend(pb.SavedSession.Range(start=start, end=end) for start, end in context.heap.free)
    device.workspace, device.launches, device.nanoseconds = context.workspace, context.launches, nanoseconds


def _objects(saved: pb.SavedSession, resources: Resources, offers: Offers) -> None:
    for digest, image in resources.images.all().items():
        saved.images.add(digest=digest, blob=offers.offer(image))
    owners: dict[tuple[str, int], int] = {}
    for handle in resources.modules.live():
        module = resources.modules.get(handle)
        saved.modules.add(handle=handle, digest=module.digest, base=module.loaded.base)
        owners.update({("function", each): handle for each in module.functions})
        owners.update({("variable", each): handle for each in module.variables})
    for handle in resources.functions.live():
        function = resources.functions.get(handle)
        saved.functions.add(
            handle=handle,
            module=owners["function", handle],
            name=function.name,
            max_dynamic_shared=function.max_dynamic_shared,
            non_portable_clusters=function.non_portable_clusters,
        )
    for handle in resources.variables.live():
        variable = resources.variables.get(handle)
        owner = owners["variable", handle]
        saved.variables.add(handle=handle, module=owner, address=variable.address, size=variable.size)
    for handle in resources.streams.live():
        saved.streams.add(handle=handle, blocking=resources.streams.get(handle).blocking)
    since = time.time_ns() - time.monotonic_ns()  # of the clock that events are recorded by
    for handle in resources.events.live():
        event = resources.events.get(handle)
        recorded = resources.context.recorded_at(event)
        saved.events.add(
            handle=handle, timed=event.timed, recorded=None if recorded is None else max(1, recorded + since)
        )
    for number in resources.payloads.numbers():
        saved.payloads.add(number=number, blob=offers.offer(bytes(resources.payloads.get(number))))
    for table in tables(resources):
        for handle, code, message in table.poisoned():
            owner = owners.get((table.kind, handle), 0)
            saved.poisoned.add(kind=table.kind, handle=handle, code=code, message=message, module=owner)
    for address, size, code, message in resources.poisoned.all():
        saved.poisoned_ranges.add(address=address, size=size, code=code, message=message)


def tables(resources: Resources) -> list[HandleTable[object]]:
    """Of the handles that a saved session has."""
    return [resources.streams, resources.events, resources.modules, resources.functions, resources.variables]
