"""Between protobuf messages and the backend's own types.

Owns the reading of guest messages that are no plain `Tape`, and the writing of host messages that are no replies: the plane reads and writes
those.

Source: protos/farlane/v1/session.proto.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from farlane.backend.device.base import Description
from farlane.backend.host.entrance import Entrance, Resumption
from farlane.backend.host.fairness import Served
from farlane.backend.host.greeting import TAPE_VERSION_MAX, TAPE_VERSION_MIN, Elsewhere, Greeting, Refused, version
from farlane.backend.host.host import Admission, Host
from farlane.backend.host.manifests import GuestObject
from farlane.backend.host.metrics import DEVICE_TIME
from farlane.backend.host.session import CREDIT_BYTES, MESSAGE_BYTES
from farlane.backend.objects.payloads import CODECS
from farlane.v1 import admin_pb2
from farlane.v1 import session_pb2 as pb


class TapePart(NamedTuple):
    """A Tape message, in another form than every protobuf library writes it."""

    group: int
    records: bytes
    last: bool


class ObjectPart(NamedTuple):
    """Part of the file of an object that was asked for."""

    identity: bytes
    data: bytes
    last: bool


class Goodbye(NamedTuple):
    pass


class Resume(NamedTuple):
    """The guest of a session comes again: its connection broke."""

    session: str
    secret: bytes
    received: int  # messages of the session


class Malformed(NamedTuple):
    """Not a message of the protocol, or one out of place."""

    why: str


GuestMessage = TapePart | Greeting | ObjectPart | Goodbye | Resume | Malformed


def read_guest(data: bytes) -> GuestMessage:
    """What a guest sent. Never raises: it runs where an exception could not be answered."""
    try:
        message = pb.GuestMessage.FromString(data)
    except Exception as error:
        return Malformed(f"bytes that are no GuestMessage: {error}")
    kind = message.WhichOneof("kind")
    if kind == "tape":
        tape = message.tape
        return TapePart(tape.group, tape.records, tape.last)
    if kind == "hello":
        hello = message.hello
        return Greeting(
            tape_version_min=hello.tape_version_min,
            tape_version_max=hello.tape_version_max,
            client_version=hello.client_version,
            program=hello.program,
            pid=hello.pid,
            mode=hello.mode,
            module_digests=list(hello.module_digests),
            objects=tuple(GuestObject(each.identity, each.size, each.has_manifest) for each in hello.objects),
            checks=tuple(hello.checks),
            comes_again=hello.comes_again,
            priority=hello.priority if hello.HasField("priority") else None,
            resumes=hello.resumes,
            waits=hello.waits,
            follows=hello.follows,
            timeline=hello.timeline,
        )
    if kind == "object_part":
        part = message.object_part
        return ObjectPart(part.identity, part.data, part.last)
    if kind == "goodbye":
        return Goodbye()
    if kind == "resume":
        return Resume(message.resume.session, message.resume.secret, message.resume.received)
    return Malformed("an empty GuestMessage, or one of a later version")


def write_welcome(
    admission: Admission,
    rings_ticket: bytes | None = None,
    process_ticket: bytes | None = None,
    rings_name: str = "",
    entrance: Entrance | None = None,
    resumption: Resumption | None = None,
) -> bytes:
    manifests = admission.manifests
    found = manifests.found if manifests is not None else []
    return pb.HostMessage(
        welcome=pb.Welcome(
            tape_version=admission.tape_version,
            host_version=version(),
            session=admission.session.name,
            window_base=admission.window.base,
            window_size=admission.window.size,
            memory_quota=admission.quota,
            credit_bytes=CREDIT_BYTES,
            message_bytes=MESSAGE_BYTES,
            devices=describe([admission.device]),
            known_modules=admission.known_modules,
            manifests=[pb.Manifest(identity=identity, content=content) for identity, content in found],
            wanted_objects=manifests.wanted if manifests is not None else (),
            payload_cache_bytes=admission.payload_bytes if admission.tape_version >= 2 else 0,
            codecs=CODECS if admission.tape_version >= 2 else (),
            checks=admission.checks,
            timeline=admission.timeline,
            rings_ticket=rings_ticket or b"",
            process_ticket=process_ticket or b"",
            rings_name=rings_name,
            process_certificate=entrance.pinned if entrance else b"",
            process_token=entrance.token if entrance else "",
            resume_secret=resumption.secret if resumption else b"",
            grace_milliseconds=round(resumption.grace * 1000) if resumption else 0,
        )
    ).SerializeToString()


def write_waiting(number: int, of: int) -> bytes:
    return pb.HostMessage(waiting=pb.Waiting(place=number, of=of)).SerializeToString()


def write_elsewhere(found: Elsewhere) -> bytes:
    answer = pb.Elsewhere(url=found.url, token=found.token, certificate=found.certificate)
    return pb.HostMessage(elsewhere=answer).SerializeToString()


def write_refusal(refused: Refused) -> bytes:
    reason = pb.Refusal.Reason.Name(refused.reason.value)
    return pb.HostMessage(refusal=pb.Refusal(reason=reason, message=refused.message)).SerializeToString()


def describe(descriptions: Iterable[Description]) -> list[pb.DeviceDescription]:
    return [
        pb.DeviceDescription(
            backend=description.backend,
            name=description.name,
            uuid=description.uuid,
            compute_major=description.compute_capability[0],
            compute_minor=description.compute_capability[1],
            total_memory=description.total_memory,
            attributes=description.attributes,
            takes_ptx=description.takes_ptx,
            takes_machine_code=description.takes_machine_code,
            makes_objects=description.makes_objects,
            has_host_mappings=description.has_host_mappings,
            has_conditions=description.has_conditions,
            has_mappings=description.has_mappings,
            takes_any_ptx=description.takes_any_ptx,
            pci_bus_id=description.pci_bus_id,
        )
        for description in descriptions
    ]


def description_of(message: pb.DeviceDescription) -> Description:
    return Description(
        backend=message.backend,
        name=message.name,
        uuid=message.uuid,
        compute_capability=(message.compute_major, message.compute_minor),
        total_memory=message.total_memory,
        takes_ptx=message.takes_ptx,
        takes_machine_code=message.takes_machine_code,
        makes_objects=message.makes_objects,
        has_host_mappings=message.has_host_mappings,
        has_conditions=message.has_conditions,
        has_mappings=message.has_mappings,
        takes_any_ptx=message.takes_any_ptx,
        pci_bus_id=message.pci_bus_id,
        attributes=dict(message.attributes),
    )


def describe_host(host: Host) -> bytes:
    usage = host.usage
    totals = host.totals(usage)
    known = [each.memory for each in usage if each.memory is not None]
    return admin_pb2.DescribeReply(
        host_version=version(),
        tape_version_min=TAPE_VERSION_MIN,
        tape_version_max=TAPE_VERSION_MAX,
        devices=describe(host.descriptions),
        sessions=host.sessions,
        waiting=host.waiting,
        queue_limit=host.queue_limit,
        session_limit=host.session_limit,
        uptime_seconds=host.uptime,
        memory_used=None if len(known) < len(usage) else sum(known),
        busy_nanoseconds=totals.counts.get(DEVICE_TIME, 0),
        open=[
            admin_pb2.OpenSession(
                name=each.name,
                program=each.program,
                pid=each.pid,
                memory_used=each.memory,
                memory_quota=each.quota,
                seconds=each.seconds,
                counts=each.counts,
                served=_served(each.served),
            )
            for each in usage
        ],
        opened=totals.opened,
        opening=totals.opening,
        refused=totals.refused,
        ended=totals.ended,
        counts=totals.counts,
    ).SerializeToString()


def _served(served: Served | None) -> admin_pb2.Served | None:
    if served is None:
        return None
    return admin_pb2.Served(
        priority=served.terms.priority,
        weight=served.terms.weight,
        share=served.terms.share or 0.0,
        service_nanoseconds=served.service_nanoseconds,
        waited_nanoseconds=served.waited_nanoseconds,
        stopped=served.stopped,
        waits=served.waits,
    )
