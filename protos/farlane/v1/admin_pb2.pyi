from farlane.v1 import session_pb2 as _session_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeReply(_message.Message):
    __slots__ = ("host_version", "tape_version_min", "tape_version_max", "devices", "sessions", "session_limit", "uptime_seconds", "memory_used", "busy_nanoseconds", "open", "opened", "opening", "refused", "ended", "counts", "waiting", "queue_limit")
    class RefusedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class EndedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    HOST_VERSION_FIELD_NUMBER: _ClassVar[int]
    TAPE_VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    TAPE_VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    SESSION_LIMIT_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_FIELD_NUMBER: _ClassVar[int]
    BUSY_NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    OPENING_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    QUEUE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    host_version: str
    tape_version_min: int
    tape_version_max: int
    devices: _containers.RepeatedCompositeFieldContainer[_session_pb2.DeviceDescription]
    sessions: int
    session_limit: int
    uptime_seconds: float
    memory_used: int
    busy_nanoseconds: int
    open: _containers.RepeatedCompositeFieldContainer[OpenSession]
    opened: int
    opening: int
    refused: _containers.ScalarMap[str, int]
    ended: _containers.ScalarMap[str, int]
    counts: _containers.ScalarMap[str, int]
    waiting: int
    queue_limit: int
    def __init__(self, host_version: _Optional[str] = ..., tape_version_min: _Optional[int] = ..., tape_version_max: _Optional[int] = ..., devices: _Optional[_Iterable[_Union[_session_pb2.DeviceDescription, _Mapping]]] = ..., sessions: _Optional[int] = ..., session_limit: _Optional[int] = ..., uptime_seconds: _Optional[float] = ..., memory_used: _Optional[int] = ..., busy_nanoseconds: _Optional[int] = ..., open: _Optional[_Iterable[_Union[OpenSession, _Mapping]]] = ..., opened: _Optional[int] = ..., opening: _Optional[int] = ..., refused: _Optional[_Mapping[str, int]] = ..., ended: _Optional[_Mapping[str, int]] = ..., counts: _Optional[_Mapping[str, int]] = ..., waiting: _Optional[int] = ..., queue_limit: _Optional[int] = ...) -> None: ...

class OpenSession(_message.Message):
    __slots__ = ("name", "program", "pid", "memory_used", "memory_quota", "seconds", "counts", "served")
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_QUOTA_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    name: str
    program: str
    pid: int
    memory_used: int
    memory_quota: int
    seconds: float
    counts: _containers.ScalarMap[str, int]
    served: Served
    def __init__(self, name: _Optional[str] = ..., program: _Optional[str] = ..., pid: _Optional[int] = ..., memory_used: _Optional[int] = ..., memory_quota: _Optional[int] = ..., seconds: _Optional[float] = ..., counts: _Optional[_Mapping[str, int]] = ..., served: _Optional[_Union[Served, _Mapping]] = ...) -> None: ...

class Served(_message.Message):
    __slots__ = ("priority", "weight", "share", "service_nanoseconds", "waited_nanoseconds", "stopped", "waits")
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    WAITED_NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    priority: int
    weight: int
    share: float
    service_nanoseconds: int
    waited_nanoseconds: int
    stopped: int
    waits: bool
    def __init__(self, priority: _Optional[int] = ..., weight: _Optional[int] = ..., share: _Optional[float] = ..., service_nanoseconds: _Optional[int] = ..., waited_nanoseconds: _Optional[int] = ..., stopped: _Optional[int] = ..., waits: bool = ...) -> None: ...
