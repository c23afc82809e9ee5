"""A session made from what was saved of one.

Owns the order in which its objects are made, and that nothing is left of a session that cannot be. Every part goes
through the checks that a guest's own would: allocations through the room of the window, images by their digests,
templates as records. Addresses are those of the saved session.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from farlane.backend.checkpoint import form
from farlane.backend.checkpoint.saving import tables
from farlane.backend.device.base import CudaError, Device
from farlane.backend.device.saved import Unsaveable
from farlane.backend.errors import ProtocolError
from farlane.backend.host.greeting import TAPE_VERSIONS
from farlane.backend.host.session import Session
from farlane.backend.objects.images import ImageStore, SessionImages
from farlane.backend.objects.payloads import CACHE_BYTES
from farlane.backend.objects.resources import Module, Resources, Variable
from farlane.v1 import checkpoint_pb2 as pb

SIMULATED = "sim"  # the kind of all that were saved before it was said
_NON_BLOCKING, _DISABLE_TIMING = 1, 2
_MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTERS = 8, 14  # cudaFuncAttribute


class Blobs:
    """What has come of content, by digest."""

    def __init__(self, found: Mapping[bytes, bytes]) -> None:
        self._found = found

    def get(self, digest: bytes) -> bytes:
        """Raises Unsaveable."""
        found = self._found.get(digest)
        if found is None:
            raise Unsaveable(f"what was saved is not whole: the content {digest.hex()[:16]} is missing")
        return found


def restore(name: str, device: Device, store: ImageStore, most: int, saved: pb.SavedSession, blobs: Blobs) -> Session:
    """A session like the saved one.

    Args:
        name: its own, at this host.
        most: device memory that this host gives a session.

    Raises:
        Unsaveable: it cannot be made here; nothing is left of it.
    """
    if saved.tape_version not in TAPE_VERSIONS:
        raise Unsaveable(f"its guest speaks version {saved.tape_version} of the tape, and this host does not")
    description = device.describe()
    if (saved.backend or SIMULATED) != description.backend:
        raise Unsaveable(
            f"its device is of the kind {(saved.backend or SIMULATED)[:32]!r}, and this host's of the kind {description.backend!r}"
        )
    capability = ".".join(map(str, description.compute_capability))
    if saved.capability != capability:
        raise Unsaveable(f"its device has compute capability {saved.capability}, and this host's has {capability}")
    if saved.quota > most or saved.payload_bytes > CACHE_BYTES:
        raise Unsaveable(f"it may use {saved.quota} bytes of device memory, and sessions of this host {most} (--quota)")
    images = SessionImages(store)
    try:
        context = device.reopen_context(saved.quota, form.context_of(saved))
    except BaseException:
        images.close()
        raise
    session = Session(name, Resources(context, images, saved.payload_bytes), saved.tape_version)
    try:
        _objects(session.resources, saved, blobs)
        for address, digests in form.pieces_of(saved):
            context.write_pages(address, b"".join(map(blobs.get, digests)))
        session.restore_replay(form.replay_of(saved))
    except (CudaError, ProtocolError) as error:
        session.close()
        raise Unsaveable(f"what was saved is damaged: {error}") from None
    except BaseException:
        session.close()
        raise
    return session


def _objects(resources: Resources, saved: pb.SavedSession, blobs: Blobs) -> None:
    for image in saved.images:
        resources.images.give(image.digest, blobs.get(image.blob))
    for each in saved.modules:
        found = resources.images.find(each.digest)
        if found is None:
            raise Unsaveable("what was saved is damaged: a module whose image is missing")
        with resources.modules.reserve(each.handle) as reservation:
            loaded = resources.context.restore_module(found, each.base)
            reservation.fill(Module(loaded, each.digest))
    for function in saved.functions:
        owner = resources.modules.get(function.module)
        with resources.functions.reserve(function.handle) as reservation:
            owner.functions.add(function.handle)
            made = resources.context.function(owner.loaded, function.name)
            reservation.fill(made)
        if function.max_dynamic_shared:
            resources.context.set_function_attribute(made, _MAX_DYNAMIC_SHARED, function.max_dynamic_shared)
        if function.non_portable_clusters:
            resources.context.set_function_attribute(made, _NON_PORTABLE_CLUSTERS, 1)
    for variable in saved.variables:
        owner = resources.modules.get(variable.module)
        with resources.variables.reserve(variable.handle) as reservation:
            owner.variables.add(variable.handle)
            reservation.fill(Variable(variable.address, variable.size))
    _timeline(resources, saved)
    for payload in saved.payloads:
        resources.payloads.keep(payload.number, blobs.get(payload.blob))
    _poison(resources, saved)


def _timeline(resources: Resources, saved: pb.SavedSession) -> None:
    for stream in saved.streams:
        with resources.streams.reserve(stream.handle) as reservation:
            flags = 0 if stream.blocking else _NON_BLOCKING
            reservation.fill(resources.context.create_stream(flags, 0))
    since = time.time_ns() - time.monotonic_ns()
    for event in saved.events:
        with resources.events.reserve(event.handle) as reservation:
            made = resources.context.create_event(0 if event.timed else _DISABLE_TIMING)
            if event.HasField("recorded"):
                if event.recorded <= since:
                    raise Unsaveable(
                        "an event was recorded before this machine was started: it cannot be restored here"
                    )
                made.give(event.recorded - since)
            reservation.fill(made)


def _poison(resources: Resources, saved: pb.SavedSession) -> None:
    known = {table.kind: table for table in tables(resources)}
    for each in saved.poisoned:
        table = known.get(each.kind)
        if table is None:
            raise Unsaveable(f"what was saved is damaged: handles of the kind {each.kind[:32]!r}")
        table.claim(each.handle)
        table.poison(each.handle, each.code, each.message)
        if each.module and each.kind in ("function", "variable"):
            owner = resources.modules.get(each.module)
            (owner.functions if each.kind == "function" else owner.variables).add(each.handle)
    for refused in saved.poisoned_ranges:
        resources.poisoned.add(refused.address, refused.size, CudaError(refused.code, refused.message))
