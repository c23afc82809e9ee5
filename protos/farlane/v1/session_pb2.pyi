from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GuestMessage(_message.Message):
    __slots__ = ("hello", "tape", "goodbye", "object_part", "received", "resume")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    TAPE_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_PART_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    tape: Tape
    goodbye: Goodbye
    object_part: ObjectPart
    received: Received
    resume: Resume
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., tape: _Optional[_Union[Tape, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., object_part: _Optional[_Union[ObjectPart, _Mapping]] = ..., received: _Optional[_Union[Received, _Mapping]] = ..., resume: _Optional[_Union[Resume, _Mapping]] = ...) -> None: ...

class HostMessage(_message.Message):
    __slots__ = ("welcome", "refusal", "reply", "resumed", "waiting", "elsewhere")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    refusal: Refusal
    reply: Reply
    resumed: Resumed
    waiting: Waiting
    elsewhere: Elsewhere
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ..., reply: _Optional[_Union[Reply, _Mapping]] = ..., resumed: _Optional[_Union[Resumed, _Mapping]] = ..., waiting: _Optional[_Union[Waiting, _Mapping]] = ..., elsewhere: _Optional[_Union[Elsewhere, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("tape_version_min", "tape_version_max", "client_version", "program", "pid", "mode", "module_digests", "objects", "checks", "comes_again", "priority", "waits", "follows", "timeline", "resumes")
    TAPE_VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    TAPE_VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    MODULE_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    COMES_AGAIN_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_FIELD_NUMBER: _ClassVar[int]
    RESUMES_FIELD_NUMBER: _ClassVar[int]
    tape_version_min: int
    tape_version_max: int
    client_version: str
    program: str
    pid: int
    mode: str
    module_digests: _containers.RepeatedScalarFieldContainer[bytes]
    objects: _containers.RepeatedCompositeFieldContainer[Object]
    checks: _containers.RepeatedScalarFieldContainer[str]
    comes_again: bool
    priority: int
    waits: bool
    follows: bool
    timeline: bool
    resumes: bool
    def __init__(self, tape_version_min: _Optional[int] = ..., tape_version_max: _Optional[int] = ..., client_version: _Optional[str] = ..., program: _Optional[str] = ..., pid: _Optional[int] = ..., mode: _Optional[str] = ..., module_digests: _Optional[_Iterable[bytes]] = ..., objects: _Optional[_Iterable[_Union[Object, _Mapping]]] = ..., checks: _Optional[_Iterable[str]] = ..., comes_again: bool = ..., priority: _Optional[int] = ..., waits: bool = ..., follows: bool = ..., timeline: bool = ..., resumes: bool = ...) -> None: ...

class Object(_message.Message):
    __slots__ = ("identity", "size", "has_manifest")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    HAS_MANIFEST_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    size: int
    has_manifest: bool
    def __init__(self, identity: _Optional[bytes] = ..., size: _Optional[int] = ..., has_manifest: bool = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("tape_version", "host_version", "session", "window_base", "window_size", "memory_quota", "credit_bytes", "message_bytes", "devices", "known_modules", "manifests", "wanted_objects", "payload_cache_bytes", "codecs", "checks", "rings_ticket", "process_ticket", "process_certificate", "process_token", "resume_secret", "grace_milliseconds", "timeline", "rings_name")
    TAPE_VERSION_FIELD_NUMBER: _ClassVar[int]
    HOST_VERSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BASE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_SIZE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_QUOTA_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    KNOWN_MODULES_FIELD_NUMBER: _ClassVar[int]
    MANIFESTS_FIELD_NUMBER: _ClassVar[int]
    WANTED_OBJECTS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_CACHE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CODECS_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    RINGS_TICKET_FIELD_NUMBER: _ClassVar[int]
    PROCESS_TICKET_FIELD_NUMBER: _ClassVar[int]
    PROCESS_CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    PROCESS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESUME_SECRET_FIELD_NUMBER: _ClassVar[int]
    GRACE_MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_FIELD_NUMBER: _ClassVar[int]
    RINGS_NAME_FIELD_NUMBER: _ClassVar[int]
    tape_version: int
    host_version: str
    session: str
    window_base: int
    window_size: int
    memory_quota: int
    credit_bytes: int
    message_bytes: int
    devices: _containers.RepeatedCompositeFieldContainer[DeviceDescription]
    known_modules: _containers.RepeatedScalarFieldContainer[bytes]
    manifests: _containers.RepeatedCompositeFieldContainer[Manifest]
    wanted_objects: _containers.RepeatedScalarFieldContainer[bytes]
    payload_cache_bytes: int
    codecs: _containers.RepeatedScalarFieldContainer[str]
    checks: _containers.RepeatedScalarFieldContainer[str]
    rings_ticket: bytes
    process_ticket: bytes
    process_certificate: bytes
    process_token: str
    resume_secret: bytes
    grace_milliseconds: int
    timeline: bool
    rings_name: str
    def __init__(self, tape_version: _Optional[int] = ..., host_version: _Optional[str] = ..., session: _Optional[str] = ..., window_base: _Optional[int] = ..., window_size: _Optional[int] = ..., memory_quota: _Optional[int] = ..., credit_bytes: _Optional[int] = ..., message_bytes: _Optional[int] = ..., devices: _Optional[_Iterable[_Union[DeviceDescription, _Mapping]]] = ..., known_modules: _Optional[_Iterable[bytes]] = ..., manifests: _Optional[_Iterable[_Union[Manifest, _Mapping]]] = ..., wanted_objects: _Optional[_Iterable[bytes]] = ..., payload_cache_bytes: _Optional[int] = ..., codecs: _Optional[_Iterable[str]] = ..., checks: _Optional[_Iterable[str]] = ..., rings_ticket: _Optional[bytes] = ..., process_ticket: _Optional[bytes] = ..., process_certificate: _Optional[bytes] = ..., process_token: _Optional[str] = ..., resume_secret: _Optional[bytes] = ..., grace_milliseconds: _Optional[int] = ..., timeline: bool = ..., rings_name: _Optional[str] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("place", "of")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    place: int
    of: int
    def __init__(self, place: _Optional[int] = ..., of: _Optional[int] = ...) -> None: ...

class Elsewhere(_message.Message):
    __slots__ = ("url", "token", "certificate")
    URL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    url: str
    token: str
    certificate: bytes
    def __init__(self, url: _Optional[str] = ..., token: _Optional[str] = ..., certificate: _Optional[bytes] = ...) -> None: ...

class Manifest(_message.Message):
    __slots__ = ("identity", "content")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    content: bytes
    def __init__(self, identity: _Optional[bytes] = ..., content: _Optional[bytes] = ...) -> None: ...

class DeviceDescription(_message.Message):
    __slots__ = ("backend", "name", "uuid", "compute_major", "compute_minor", "total_memory", "attributes", "takes_ptx", "takes_machine_code", "pci_bus_id", "makes_objects", "has_host_mappings", "has_conditions", "has_mappings", "takes_any_ptx")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_MAJOR_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_MINOR_FIELD_NUMBER: _ClassVar[int]
    TOTAL_MEMORY_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    TAKES_PTX_FIELD_NUMBER: _ClassVar[int]
    TAKES_MACHINE_CODE_FIELD_NUMBER: _ClassVar[int]
    PCI_BUS_ID_FIELD_NUMBER: _ClassVar[int]
    MAKES_OBJECTS_FIELD_NUMBER: _ClassVar[int]
    HAS_HOST_MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    HAS_CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    HAS_MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    TAKES_ANY_PTX_FIELD_NUMBER: _ClassVar[int]
    backend: str
    name: str
    uuid: bytes
    compute_major: int
    compute_minor: int
    total_memory: int
    attributes: _containers.ScalarMap[int, int]
    takes_ptx: bool
    takes_machine_code: bool
    pci_bus_id: str
    makes_objects: bool
    has_host_mappings: bool
    has_conditions: bool
    has_mappings: bool
    takes_any_ptx: bool
    def __init__(self, backend: _Optional[str] = ..., name: _Optional[str] = ..., uuid: _Optional[bytes] = ..., compute_major: _Optional[int] = ..., compute_minor: _Optional[int] = ..., total_memory: _Optional[int] = ..., attributes: _Optional[_Mapping[int, int]] = ..., takes_ptx: bool = ..., takes_machine_code: bool = ..., pci_bus_id: _Optional[str] = ..., makes_objects: bool = ..., has_host_mappings: bool = ..., has_conditions: bool = ..., has_mappings: bool = ..., takes_any_ptx: bool = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("reason", "message")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_UNSPECIFIED: _ClassVar[Refusal.Reason]
        VERSION: _ClassVar[Refusal.Reason]
        BUSY: _ClassVar[Refusal.Reason]
        MALFORMED: _ClassVar[Refusal.Reason]
        DEVICE: _ClassVar[Refusal.Reason]
        UNAUTHORIZED: _ClassVar[Refusal.Reason]
        GONE: _ClassVar[Refusal.Reason]
    REASON_UNSPECIFIED: Refusal.Reason
    VERSION: Refusal.Reason
    BUSY: Refusal.Reason
    MALFORMED: Refusal.Reason
    DEVICE: Refusal.Reason
    UNAUTHORIZED: Refusal.Reason
    GONE: Refusal.Reason
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: Refusal.Reason
    message: str
    def __init__(self, reason: _Optional[_Union[Refusal.Reason, str]] = ..., message: _Optional[str] = ...) -> None: ...

class Tape(_message.Message):
    __slots__ = ("group", "records", "last")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    group: int
    records: bytes
    last: bool
    def __init__(self, group: _Optional[int] = ..., records: _Optional[bytes] = ..., last: bool = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("group", "results", "last", "error", "sticky", "error_message", "device_nanoseconds", "printed", "complaints")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STICKY_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    PRINTED_FIELD_NUMBER: _ClassVar[int]
    COMPLAINTS_FIELD_NUMBER: _ClassVar[int]
    group: int
    results: bytes
    last: bool
    error: int
    sticky: bool
    error_message: str
    device_nanoseconds: int
    printed: bytes
    complaints: bytes
    def __init__(self, group: _Optional[int] = ..., results: _Optional[bytes] = ..., last: bool = ..., error: _Optional[int] = ..., sticky: bool = ..., error_message: _Optional[str] = ..., device_nanoseconds: _Optional[int] = ..., printed: _Optional[bytes] = ..., complaints: _Optional[bytes] = ...) -> None: ...

class ObjectPart(_message.Message):
    __slots__ = ("identity", "data", "last")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    data: bytes
    last: bool
    def __init__(self, identity: _Optional[bytes] = ..., data: _Optional[bytes] = ..., last: bool = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Received(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: int
    def __init__(self, messages: _Optional[int] = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("session", "secret", "received")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    session: str
    secret: bytes
    received: int
    def __init__(self, session: _Optional[str] = ..., secret: _Optional[bytes] = ..., received: _Optional[int] = ...) -> None: ...

class Resumed(_message.Message):
    __slots__ = ("received", "process_ticket")
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    PROCESS_TICKET_FIELD_NUMBER: _ClassVar[int]
    received: int
    process_ticket: bytes
    def __init__(self, received: _Optional[int] = ..., process_ticket: _Optional[bytes] = ...) -> None: ...
