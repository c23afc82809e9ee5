from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SavedSession(_message.Message):
    __slots__ = ("version", "host_version", "session", "secret", "owner", "program", "pid", "tape_version", "quota", "payload_bytes", "capability", "backend", "saved_at", "messages", "replay", "device", "process", "images", "modules", "functions", "variables", "streams", "events", "payloads", "poisoned", "poisoned_ranges", "pages")
    class Process(_message.Message):
        __slots__ = ("certificate", "key", "token")
        CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
        KEY_FIELD_NUMBER: _ClassVar[int]
        TOKEN_FIELD_NUMBER: _ClassVar[int]
        certificate: bytes
        key: bytes
        token: str
        def __init__(self, certificate: _Optional[bytes] = ..., key: _Optional[bytes] = ..., token: _Optional[str] = ...) -> None: ...
    class Messages(_message.Message):
        __slots__ = ("received", "first", "unconfirmed")
        RECEIVED_FIELD_NUMBER: _ClassVar[int]
        FIRST_FIELD_NUMBER: _ClassVar[int]
        UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
        received: int
        first: int
        unconfirmed: _containers.RepeatedScalarFieldContainer[bytes]
        def __init__(self, received: _Optional[int] = ..., first: _Optional[int] = ..., unconfirmed: _Optional[_Iterable[bytes]] = ...) -> None: ...
    class Replay(_message.Message):
        __slots__ = ("group", "context", "records", "continuing", "decided_slice", "decided_answer")
        GROUP_FIELD_NUMBER: _ClassVar[int]
        CONTEXT_FIELD_NUMBER: _ClassVar[int]
        RECORDS_FIELD_NUMBER: _ClassVar[int]
        CONTINUING_FIELD_NUMBER: _ClassVar[int]
        DECIDED_SLICE_FIELD_NUMBER: _ClassVar[int]
        DECIDED_ANSWER_FIELD_NUMBER: _ClassVar[int]
        group: int
        context: int
        records: _containers.RepeatedScalarFieldContainer[bytes]
        continuing: _containers.RepeatedCompositeFieldContainer[SavedSession.Continuing]
        decided_slice: int
        decided_answer: int
        def __init__(self, group: _Optional[int] = ..., context: _Optional[int] = ..., records: _Optional[_Iterable[bytes]] = ..., continuing: _Optional[_Iterable[_Union[SavedSession.Continuing, _Mapping]]] = ..., decided_slice: _Optional[int] = ..., decided_answer: _Optional[int] = ...) -> None: ...
    class Continuing(_message.Message):
        __slots__ = ("template", "columns", "next")
        TEMPLATE_FIELD_NUMBER: _ClassVar[int]
        COLUMNS_FIELD_NUMBER: _ClassVar[int]
        NEXT_FIELD_NUMBER: _ClassVar[int]
        template: int
        columns: bytes
        next: int
        def __init__(self, template: _Optional[int] = ..., columns: _Optional[bytes] = ..., next: _Optional[int] = ...) -> None: ...
    class Image(_message.Message):
        __slots__ = ("digest", "blob")
        DIGEST_FIELD_NUMBER: _ClassVar[int]
        BLOB_FIELD_NUMBER: _ClassVar[int]
        digest: bytes
        blob: bytes
        def __init__(self, digest: _Optional[bytes] = ..., blob: _Optional[bytes] = ...) -> None: ...
    class Module(_message.Message):
        __slots__ = ("handle", "digest", "base")
        HANDLE_FIELD_NUMBER: _ClassVar[int]
        DIGEST_FIELD_NUMBER: _ClassVar[int]
        BASE_FIELD_NUMBER: _ClassVar[int]
        handle: int
        digest: bytes
        base: int
        def __init__(self, handle: _Optional[int] = ..., digest: _Optional[bytes] = ..., base: _Optional[int] = ...) -> None: ...
    class Function(_message.Message):
        __slots__ = ("handle", "module", "name", "max_dynamic_shared", "non_portable_clusters")
        HANDLE_FIELD_NUMBER: _ClassVar[int]
        MODULE_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        MAX_DYNAMIC_SHARED_FIELD_NUMBER: _ClassVar[int]
        NON_PORTABLE_CLUSTERS_FIELD_NUMBER: _ClassVar[int]
        handle: int
        module: int
        name: str
        max_dynamic_shared: int
        non_portable_clusters: bool
        def __init__(self, handle: _Optional[int] = ..., module: _Optional[int] = ..., name: _Optional[str] = ..., max_dynamic_shared: _Optional[int] = ..., non_portable_clusters: bool = ...) -> None: ...
    class Variable(_message.Message):
        __slots__ = ("handle", "module", "address", "size")
        HANDLE_FIELD_NUMBER: _ClassVar[int]
        MODULE_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        handle: int
        module: int
        address: int
        size: int
        def __init__(self, handle: _Optional[int] = ..., module: _Optional[int] = ..., address: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...
    class Stream(_message.Message):
        __slots__ = ("handle", "blocking")
        HANDLE_FIELD_NUMBER: _ClassVar[int]
        BLOCKING_FIELD_NUMBER: _ClassVar[int]
        handle: int
        blocking: bool
        def __init__(self, handle: _Optional[int] = ..., blocking: bool = ...) -> None: ...
    class Event(_message.Message):
        __slots__ = ("handle", "timed", "recorded")
        HANDLE_FIELD_NUMBER: _ClassVar[int]
        TIMED_FIELD_NUMBER: _ClassVar[int]
        RECORDED_FIELD_NUMBER: _ClassVar[int]
        handle: int
        timed: bool
        recorded: int
        def __init__(self, handle: _Optional[int] = ..., timed: bool = ..., recorded: _Optional[int] = ...) -> None: ...
    class Payload(_message.Message):
        __slots__ = ("number", "blob")
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        BLOB_FIELD_NUMBER: _ClassVar[int]
        number: int
        blob: bytes
        def __init__(self, number: _Optional[int] = ..., blob: _Optional[bytes] = ...) -> None: ...
    class Poisoned(_message.Message):
        __slots__ = ("kind", "handle", "code", "message", "module")
        KIND_FIELD_NUMBER: _ClassVar[int]
        HANDLE_FIELD_NUMBER: _ClassVar[int]
        CODE_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        MODULE_FIELD_NUMBER: _ClassVar[int]
        kind: str
        handle: int
        code: int
        message: str
        module: int
        def __init__(self, kind: _Optional[str] = ..., handle: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., module: _Optional[int] = ...) -> None: ...
    class PoisonedRange(_message.Message):
        __slots__ = ("address", "size", "code", "message")
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        CODE_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        address: int
        size: int
        code: int
        message: str
        def __init__(self, address: _Optional[int] = ..., size: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...
    class PageRun(_message.Message):
        __slots__ = ("address", "digests")
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        DIGESTS_FIELD_NUMBER: _ClassVar[int]
        address: int
        digests: bytes
        def __init__(self, address: _Optional[int] = ..., digests: _Optional[bytes] = ...) -> None: ...
    class DeviceState(_message.Message):
        __slots__ = ("base", "size", "allocations", "areas", "limits", "heap", "workspace", "launches", "nanoseconds")
        class LimitsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: int
            value: int
            def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
        BASE_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
        AREAS_FIELD_NUMBER: _ClassVar[int]
        LIMITS_FIELD_NUMBER: _ClassVar[int]
        HEAP_FIELD_NUMBER: _ClassVar[int]
        WORKSPACE_FIELD_NUMBER: _ClassVar[int]
        LAUNCHES_FIELD_NUMBER: _ClassVar[int]
        NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
        base: int
        size: int
        allocations: _containers.RepeatedCompositeFieldContainer[SavedSession.Allocation]
        areas: _containers.RepeatedCompositeFieldContainer[SavedSession.Area]
        limits: _containers.ScalarMap[int, int]
        heap: SavedSession.Heap
        workspace: int
        launches: int
        nanoseconds: int
        def __init__(self, base: _Optional[int] = ..., size: _Optional[int] = ..., allocations: _Optional[_Iterable[_Union[SavedSession.Allocation, _Mapping]]] = ..., areas: _Optional[_Iterable[_Union[SavedSession.Area, _Mapping]]] = ..., limits: _Optional[_Mapping[int, int]] = ..., heap: _Optional[_Union[SavedSession.Heap, _Mapping]] = ..., workspace: _Optional[int] = ..., launches: _Optional[int] = ..., nanoseconds: _Optional[int] = ...) -> None: ...
    class Allocation(_message.Message):
        __slots__ = ("address", "size")
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        address: int
        size: int
        def __init__(self, address: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...
    class Area(_message.Message):
        __slots__ = ("base", "parts")
        BASE_FIELD_NUMBER: _ClassVar[int]
        PARTS_FIELD_NUMBER: _ClassVar[int]
        base: int
        parts: _containers.RepeatedCompositeFieldContainer[SavedSession.Part]
        def __init__(self, base: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[SavedSession.Part, _Mapping]]] = ...) -> None: ...
    class Part(_message.Message):
        __slots__ = ("address", "size", "label", "writable")
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        LABEL_FIELD_NUMBER: _ClassVar[int]
        WRITABLE_FIELD_NUMBER: _ClassVar[int]
        address: int
        size: int
        label: str
        writable: bool
        def __init__(self, address: _Optional[int] = ..., size: _Optional[int] = ..., label: _Optional[str] = ..., writable: bool = ...) -> None: ...
    class Heap(_message.Message):
        __slots__ = ("base", "size", "blocks", "free")
        BASE_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        BLOCKS_FIELD_NUMBER: _ClassVar[int]
        FREE_FIELD_NUMBER: _ClassVar[int]
        base: int
        size: int
        blocks: _containers.RepeatedCompositeFieldContainer[SavedSession.Range]
        free: _containers.RepeatedCompositeFieldContainer[SavedSession.Range]
        def __init__(self, base: _Optional[int] = ..., size: _Optional[int] = ..., blocks: _Optional[_Iterable[_Union[SavedSession.Range, _Mapping]]] = ..., free: _Optional[_Iterable[_Union[SavedSession.Range, _Mapping]]] = ...) -> None: ...
    class Range(_message.Message):
        __slots__ = ("start", "end")
        START_FIELD_NUMBER: _ClassVar[int]
        END_FIELD_NUMBER: _ClassVar[int]
        start: int
        end: int
        def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HOST_VERSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    TAPE_VERSION_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    SAVED_AT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    MODULES_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    POISONED_FIELD_NUMBER: _ClassVar[int]
    POISONED_RANGES_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    version: int
    host_version: str
    session: str
    secret: bytes
    owner: str
    program: str
    pid: int
    tape_version: int
    quota: int
    payload_bytes: int
    capability: str
    backend: str
    saved_at: int
    messages: SavedSession.Messages
    replay: SavedSession.Replay
    device: SavedSession.DeviceState
    process: SavedSession.Process
    images: _containers.RepeatedCompositeFieldContainer[SavedSession.Image]
    modules: _containers.RepeatedCompositeFieldContainer[SavedSession.Module]
    functions: _containers.RepeatedCompositeFieldContainer[SavedSession.Function]
    variables: _containers.RepeatedCompositeFieldContainer[SavedSession.Variable]
    streams: _containers.RepeatedCompositeFieldContainer[SavedSession.Stream]
    events: _containers.RepeatedCompositeFieldContainer[SavedSession.Event]
    payloads: _containers.RepeatedCompositeFieldContainer[SavedSession.Payload]
    poisoned: _containers.RepeatedCompositeFieldContainer[SavedSession.Poisoned]
    poisoned_ranges: _containers.RepeatedCompositeFieldContainer[SavedSession.PoisonedRange]
    pages: _containers.RepeatedCompositeFieldContainer[SavedSession.PageRun]
    def __init__(self, version: _Optional[int] = ..., host_version: _Optional[str] = ..., session: _Optional[str] = ..., secret: _Optional[bytes] = ..., owner: _Optional[str] = ..., program: _Optional[str] = ..., pid: _Optional[int] = ..., tape_version: _Optional[int] = ..., quota: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., capability: _Optional[str] = ..., backend: _Optional[str] = ..., saved_at: _Optional[int] = ..., messages: _Optional[_Union[SavedSession.Messages, _Mapping]] = ..., replay: _Optional[_Union[SavedSession.Replay, _Mapping]] = ..., device: _Optional[_Union[SavedSession.DeviceState, _Mapping]] = ..., process: _Optional[_Union[SavedSession.Process, _Mapping]] = ..., images: _Optional[_Iterable[_Union[SavedSession.Image, _Mapping]]] = ..., modules: _Optional[_Iterable[_Union[SavedSession.Module, _Mapping]]] = ..., functions: _Optional[_Iterable[_Union[SavedSession.Function, _Mapping]]] = ..., variables: _Optional[_Iterable[_Union[SavedSession.Variable, _Mapping]]] = ..., streams: _Optional[_Iterable[_Union[SavedSession.Stream, _Mapping]]] = ..., events: _Optional[_Iterable[_Union[SavedSession.Event, _Mapping]]] = ..., payloads: _Optional[_Iterable[_Union[SavedSession.Payload, _Mapping]]] = ..., poisoned: _Optional[_Iterable[_Union[SavedSession.Poisoned, _Mapping]]] = ..., poisoned_ranges: _Optional[_Iterable[_Union[SavedSession.PoisonedRange, _Mapping]]] = ..., pages: _Optional[_Iterable[_Union[SavedSession.PageRun, _Mapping]]] = ...) -> None: ...

class SavedFolder(_message.Message):
    __slots__ = ("session", "packs")
    class Pack(_message.Message):
        __slots__ = ("number", "digests", "sizes")
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        DIGESTS_FIELD_NUMBER: _ClassVar[int]
        SIZES_FIELD_NUMBER: _ClassVar[int]
        number: int
        digests: bytes
        sizes: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, number: _Optional[int] = ..., digests: _Optional[bytes] = ..., sizes: _Optional[_Iterable[int]] = ...) -> None: ...
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PACKS_FIELD_NUMBER: _ClassVar[int]
    session: SavedSession
    packs: _containers.RepeatedCompositeFieldContainer[SavedFolder.Pack]
    def __init__(self, session: _Optional[_Union[SavedSession, _Mapping]] = ..., packs: _Optional[_Iterable[_Union[SavedFolder.Pack, _Mapping]]] = ...) -> None: ...

class SaveRequest(_message.Message):
    __slots__ = ("begin", "have", "start", "kept", "taken")
    class Begin(_message.Message):
        __slots__ = ("session", "leave", "wait_seconds", "rounds", "to", "token", "certificate")
        SESSION_FIELD_NUMBER: _ClassVar[int]
        LEAVE_FIELD_NUMBER: _ClassVar[int]
        WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
        ROUNDS_FIELD_NUMBER: _ClassVar[int]
        TO_FIELD_NUMBER: _ClassVar[int]
        TOKEN_FIELD_NUMBER: _ClassVar[int]
        CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
        session: str
        leave: bool
        wait_seconds: float
        rounds: int
        to: str
        token: str
        certificate: bytes
        def __init__(self, session: _Optional[str] = ..., leave: bool = ..., wait_seconds: _Optional[float] = ..., rounds: _Optional[int] = ..., to: _Optional[str] = ..., token: _Optional[str] = ..., certificate: _Optional[bytes] = ...) -> None: ...
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    HAVE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    begin: SaveRequest.Begin
    have: bytes
    start: bool
    kept: bool
    taken: bool
    def __init__(self, begin: _Optional[_Union[SaveRequest.Begin, _Mapping]] = ..., have: _Optional[bytes] = ..., start: bool = ..., kept: bool = ..., taken: bool = ...) -> None: ...

class SavePart(_message.Message):
    __slots__ = ("blobs", "session", "figures", "refused", "paused", "round")
    class Figures(_message.Message):
        __slots__ = ("pages", "sent", "sent_ahead")
        PAGES_FIELD_NUMBER: _ClassVar[int]
        SENT_FIELD_NUMBER: _ClassVar[int]
        SENT_AHEAD_FIELD_NUMBER: _ClassVar[int]
        pages: int
        sent: int
        sent_ahead: int
        def __init__(self, pages: _Optional[int] = ..., sent: _Optional[int] = ..., sent_ahead: _Optional[int] = ...) -> None: ...
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    blobs: Blobs
    session: bytes
    figures: SavePart.Figures
    refused: str
    paused: float
    round: bool
    def __init__(self, blobs: _Optional[_Union[Blobs, _Mapping]] = ..., session: _Optional[bytes] = ..., figures: _Optional[_Union[SavePart.Figures, _Mapping]] = ..., refused: _Optional[str] = ..., paused: _Optional[float] = ..., round: bool = ...) -> None: ...

class Blobs(_message.Message):
    __slots__ = ("data", "more")
    DATA_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    data: _containers.RepeatedScalarFieldContainer[bytes]
    more: bool
    def __init__(self, data: _Optional[_Iterable[bytes]] = ..., more: bool = ...) -> None: ...

class RestorePart(_message.Message):
    __slots__ = ("blobs", "session", "end", "ask")
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    blobs: Blobs
    session: bytes
    end: bool
    ask: bool
    def __init__(self, blobs: _Optional[_Union[Blobs, _Mapping]] = ..., session: _Optional[bytes] = ..., end: bool = ..., ask: bool = ...) -> None: ...

class RestoreReply(_message.Message):
    __slots__ = ("session", "refused", "taken")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    session: str
    refused: str
    taken: bool
    def __init__(self, session: _Optional[str] = ..., refused: _Optional[str] = ..., taken: bool = ...) -> None: ...
