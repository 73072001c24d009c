"""Protocol version 2: frames to and from the bytes whose layout ``wire.h`` gives.

The layout comes from the header itself (``protos/generate.py``), so it is written nowhere else; nothing of cffi leaves
this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from enum import IntEnum
from struct import Struct
from typing import Any

from nvshare.protocol.frame_types import FrameType
from nvshare.protocol.frames import (
    Allot,
    Arena,
    AskReason,
    Backend,
    ClientFrame,
    Drain,
    DrainReport,
    DropLock,
    Evict,
    Footprint,
    Frame,
    Gang,
    Grow,
    Idle,
    Join,
    Joined,
    Leave,
    Limit,
    LockOk,
    LockReleased,
    Notice,
    Priority,
    Progress,
    Reason,
    Refused,
    RefuseGrowth,
    Register,
    ReqLock,
    Resident,
    SchedOn,
    SchedulerFrame,
    State,
    Terms,
    Text,
    Tie,
    Waiters,
    Watch,
    WhenFull,
)
from nvshare.protocol.layout import ffi, lib
from nvshare.protocol.shared_frames import AskShared, NotShared, OpenShared, Share, Shared, Unshare
from nvshare.protocol.sleep_frames import (
    Asleep,
    Awake,
    Dedup,
    Deduped,
    Loaded,
    NotAsleep,
    NotStored,
    Pack,
    Packed,
    Sleep,
    SleepWhen,
    Store,
    Stored,
    Sum,
    Summed,
    Wake,
)
from nvshare.protocol.texts import field_of, text_in

__all__ = [
    "CONTAINER_BYTES",
    "FRAME_BYTES",
    "KEY_BYTES",
    "LEVEL",
    "MAGIC",
    "NAME_BYTES",
    "SHARING_TEXT_BYTES",
    "TEXT_BYTES",
    "UUID_BYTES",
    "VERSION",
    "WHOLE_TEXT_BYTES",
    "Allot",
    "Arena",
    "AskReason",
    "AskShared",
    "Asleep",
    "Awake",
    "Backend",
    "ClientFrame",
    "Dedup",
    "Deduped",
    "Drain",
    "DrainReport",
    "DropLock",
    "Evict",
    "Footprint",
    "Frame",
    "FrameType",
    "Gang",
    "Grow",
    "Idle",
    "Join",
    "Joined",
    "Leave",
    "Limit",
    "Loaded",
    "LockOk",
    "LockReleased",
    "NotAsleep",
    "NotShared",
    "NotStored",
    "Notice",
    "OpenShared",
    "Pack",
    "Packed",
    "Priority",
    "Progress",
    "Reason",
    "RefuseGrowth",
    "Refused",
    "Register",
    "ReqLock",
    "Resident",
    "SchedOn",
    "SchedulerFrame",
    "Share",
    "Shared",
    "Sleep",
    "SleepWhen",
    "State",
    "Store",
    "Stored",
    "Sum",
    "Summed",
    "Terms",
    "Text",
    "Tie",
    "Unshare",
    "VersionError",
    "Waiters",
    "Wake",
    "Watch",
    "WhenFull",
    "WireError",
    "decode",
    "encode",
]


class WireError(Exception):
    """The peer sent bytes that are no frame; the message says why."""


class VersionError(WireError):
    """The peer speaks a protocol version that is not ours."""

    def __init__(self, version: int) -> None:
        super().__init__(f"protocol version {version} is not supported, only {VERSION} is")
        self.version = version


_FRAME = ffi.typeof("struct nvs_frame")

MAGIC: int = lib.NVS_WIRE_MAGIC
VERSION: int = lib.NVS_WIRE_VERSION
LEVEL: int = lib.NVS_WIRE_LEVEL
UUID_BYTES: int = lib.NVS_WIRE_UUID_BYTES
TEXT_BYTES: int = lib.NVS_WIRE_TEXT_BYTES
SHARING_TEXT_BYTES: int = lib.NVS_WIRE_SHARING_TEXT_BYTES
WHOLE_TEXT_BYTES: int = lib.NVS_WIRE_WHOLE_TEXT_BYTES
NAME_BYTES: int = lib.NVS_WIRE_NAME_BYTES
CONTAINER_BYTES: int = lib.NVS_WIRE_CONTAINER_BYTES
KEY_BYTES: int = lib.NVS_WIRE_KEY_BYTES
FRAME_BYTES: int = ffi.sizeof(_FRAME)


def encode(frame: Frame) -> bytes:
    """The ``FRAME_BYTES`` bytes of a frame; texts too long for their field are cut between characters.

    ValueError: a UUID or a key has not the length of its field.
    """
    return _ENCODE[type(frame)](frame)


def decode(data: bytes | bytearray | memoryview) -> Frame:
    """The frame in ``FRAME_BYTES`` bytes; WireError when they are none, VersionError when it is another version's."""
    if len(data) != FRAME_BYTES:
        raise WireError(f"a frame has {FRAME_BYTES} bytes, not {len(data)}")
    if data[0] != MAGIC:
        raise WireError(f"a frame begins with 0x{MAGIC:02x}, not 0x{data[0]:02x}")
    if data[1] != VERSION:
        raise VersionError(data[1])
    if data[2] not in _DECODE:
        raise WireError(f"frame type {data[2]} is unknown")
    return _DECODE[data[2]](data)


_TYPES: dict[type[Frame], tuple[FrameType, str]] = {
    Register: (FrameType.REGISTER, ""),
    SchedOn: (FrameType.SCHED_ON, ""),
    ReqLock: (FrameType.REQ_LOCK, ""),
    LockOk: (FrameType.LOCK_OK, ""),
    DropLock: (FrameType.DROP_LOCK, ""),
    LockReleased: (FrameType.LOCK_RELEASED, ""),
    Footprint: (FrameType.FOOTPRINT, ""),
    Waiters: (FrameType.WAITERS, ""),
    Refused: (FrameType.REFUSED, ""),
    DrainReport: (FrameType.DRAIN_REPORT, ""),
    Notice: (FrameType.NOTICE, ""),
    AskReason: (FrameType.ASK_REASON, ""),
    Reason: (FrameType.REASON, ""),
    Grow: (FrameType.GROW, "memory"),
    Allot: (FrameType.ALLOT, "memory"),
    Evict: (FrameType.EVICT, "memory"),
    Resident: (FrameType.RESIDENT, "memory"),
    RefuseGrowth: (FrameType.REFUSE_GROWTH, ""),
    Arena: (FrameType.ARENA, "memory"),
    Terms: (FrameType.TERMS, "terms"),
    Join: (FrameType.JOIN, "gang"),
    Leave: (FrameType.LEAVE, "gang"),
    Joined: (FrameType.JOINED, ""),
    Gang: (FrameType.GANG, "gang"),
    Idle: (FrameType.IDLE, ""),
    Watch: (FrameType.WATCH, "watch"),
    Progress: (FrameType.PROGRESS, "progress"),
    Limit: (FrameType.LIMIT, "limit"),
    Share: (FrameType.SHARE, "shared"),
    Unshare: (FrameType.UNSHARE, "shared"),
    OpenShared: (FrameType.OPEN_SHARED, "shared"),
    AskShared: (FrameType.ASK_SHARED, "shared"),
    Shared: (FrameType.SHARED, "shared"),
    NotShared: (FrameType.NOT_SHARED, ""),
    Text: (FrameType.TEXT, ""),
    Sleep: (FrameType.SLEEP, ""),
    Asleep: (FrameType.ASLEEP, ""),
    NotAsleep: (FrameType.NOT_ASLEEP, ""),
    Wake: (FrameType.WAKE, ""),
    Awake: (FrameType.AWAKE, ""),
    Store: (FrameType.STORE, ""),
    Stored: (FrameType.STORED, ""),
    NotStored: (FrameType.NOT_STORED, ""),
    Loaded: (FrameType.LOADED, ""),
    Sum: (FrameType.SUM, ""),
    Summed: (FrameType.SUMMED, "sharing"),
    Pack: (FrameType.PACK, ""),
    Packed: (FrameType.PACKED, "sharing"),
    Dedup: (FrameType.DEDUP, ""),
    Deduped: (FrameType.DEDUPED, "sharing"),
}
"""The number of each frame, and the part of the layout that has its fields beside those of every frame."""
_CALLED = {
    (Register, "command"): "text",
    (Refused, "final"): "state",
    (AskReason, "memory"): "request",
    (Reason, "memory"): "request",
    (Resident, "returned_bytes"): "segment_bytes",
    (NotAsleep, "final"): "state",
    (Awake, "lost"): "state",
    (Loaded, "lost"): "state",
}
"""Fields that the layout calls otherwise."""
_CODES = {"uint8_t": "B", "uint32_t": "I", "uint64_t": "Q"}
_HEADER_BYTES = 3
"""Magic, version and number."""


def _one_of(kind: type[IntEnum], unknown: str) -> Callable[[int], IntEnum]:
    known = {int(member): member for member in kind}

    def read(value: int) -> IntEnum:
        if value not in known:
            raise WireError(unknown.format(value))
        return known[value]

    return read


_READ: dict[str, Callable[[Any], Any]] = {
    "str": text_in,
    "bool": bool,
    "State": _one_of(State, "client state {} is unknown"),
    "Backend": _one_of(Backend, "memory backend {} is unknown"),
    "Drain": _one_of(Drain, "state {} of a drain is unknown"),
    "Tie": _one_of(Tie, "tie {} is unknown"),
    "Priority": _one_of(Priority, "priority {} is unknown"),
    "SleepWhen": _one_of(SleepWhen, "{} is unknown as when to sleep"),
    "WhenFull": _one_of(WhenFull, "{} is unknown as what to do where memory is full"),
}
"""What becomes of what is in a field, by the type that the frame's dataclass gives it; other types are as they are."""


def _written(name: str, kind: str, size: int) -> Callable[[Any], bytes] | None:
    """What is put into a field of so many bytes for a value of this type; None: the value itself."""

    def checked(value: bytes) -> bytes:
        if len(value) != size:
            raise ValueError(f"{name} has {size} bytes, not {len(value)}")
        return value

    return {"str": lambda text: field_of(text, size), "bytes": checked}.get(kind)


def _places(struct: Any, begin: int = 0) -> dict[str, tuple[int, Any]]:
    """Where each field of a struct begins, and its type; the fields of a union without a name are the struct's own."""
    found: dict[str, tuple[int, Any]] = {}
    for name, field in struct.fields:
        place = begin + field.offset
        found |= {name: (place, field.type)} if name else _places(field.type, place)
    return found


_OWN = _places(_FRAME)


def _codec(frame: type[Frame], number: int, part: str) -> tuple[Callable[[Any], bytes], Callable[[Any], Frame]]:
    """What makes bytes of a frame of this kind, and a frame of bytes."""
    made: Callable[..., Frame] = frame
    begin, struct = _OWN[part] if part else (0, _FRAME)
    places = _OWN | _places(struct, begin)
    kinds = {field.name: str(field.type) for field in fields(frame)}
    found = {name: places[_CALLED.get((frame, name), name)] for name in kinds}
    names = sorted(found, key=lambda name: found[name][0])
    # "=": numbers as the machine has them, with no padding but ours.
    text, end = "=", _HEADER_BYTES
    reads, writes = [], []
    for index, name in enumerate(names):
        place, c_type = found[name]
        size = ffi.sizeof(c_type)
        text += f"{place - end}x" + (f"{size}s" if c_type.kind == "array" else _CODES[c_type.cname])
        end = place + size
        if (read := _READ.get(kinds[name])) is not None:
            reads.append((index, read))
        if (written := _written(name, kinds[name], size)) is not None:
            writes.append((index, written))
    layout = Struct(f"{text}{FRAME_BYTES - end}x")
    header = bytes((MAGIC, VERSION, number))
    order = [names.index(name) for name in kinds]

    def encoded(frame: Frame) -> bytes:
        values = [getattr(frame, name) for name in names]
        for index, written in writes:
            values[index] = written(values[index])
        return header + layout.pack(*values)

    def decoded(data: bytes | bytearray | memoryview) -> Frame:
        values = list(layout.unpack_from(data, _HEADER_BYTES))
        for index, read in reads:
            values[index] = read(values[index])
        return made(*[values[index] for index in order])

    return encoded, decoded


_CODECS = {frame: _codec(frame, int(number), part) for frame, (number, part) in _TYPES.items()}
_ENCODE = {frame: encoded for frame, (encoded, _) in _CODECS.items()}
_DECODE = {int(_TYPES[frame][0]): decoded for frame, (_, decoded) in _CODECS.items()}
