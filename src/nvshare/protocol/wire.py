"""Protocol version 2: frames to and from the bytes whose layout ``wire.h`` gives.

The layout comes from the header itself (``protos/generate.py``), so it is written nowhere else; nothing of cffi leaves
this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, assert_never

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
from nvshare.protocol.texts import field_of, text_in

__all__ = [
    "CONTAINER_BYTES",
    "FRAME_BYTES",
    "KEY_BYTES",
    "LEVEL",
    "MAGIC",
    "NAME_BYTES",
    "TEXT_BYTES",
    "UUID_BYTES",
    "VERSION",
    "WHOLE_TEXT_BYTES",
    "Allot",
    "Arena",
    "AskReason",
    "AskShared",
    "Backend",
    "ClientFrame",
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
    "LockOk",
    "LockReleased",
    "NotShared",
    "Notice",
    "OpenShared",
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
    "State",
    "Terms",
    "Text",
    "Tie",
    "Unshare",
    "VersionError",
    "Waiters",
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
_FRAME_POINTER = ffi.typeof("struct nvs_frame *")

MAGIC: int = lib.NVS_WIRE_MAGIC
VERSION: int = lib.NVS_WIRE_VERSION
LEVEL: int = lib.NVS_WIRE_LEVEL
UUID_BYTES: int = lib.NVS_WIRE_UUID_BYTES
TEXT_BYTES: int = lib.NVS_WIRE_TEXT_BYTES
WHOLE_TEXT_BYTES: int = lib.NVS_WIRE_WHOLE_TEXT_BYTES
NAME_BYTES: int = lib.NVS_WIRE_NAME_BYTES
CONTAINER_BYTES: int = lib.NVS_WIRE_CONTAINER_BYTES
KEY_BYTES: int = lib.NVS_WIRE_KEY_BYTES
FRAME_BYTES: int = ffi.sizeof(_FRAME)


def encode(frame: Frame) -> bytes:
    """The ``FRAME_BYTES`` bytes of a frame; texts too long for their field are cut between characters."""
    raw: Any = ffi.new(_FRAME_POINTER)
    raw.magic = MAGIC
    raw.version = VERSION
    match frame:
        case Register():
            _encode_register(raw, frame)
        case SchedOn(client_id, epoch, level):
            raw.type, raw.client_id, raw.epoch, raw.level = FrameType.SCHED_ON, client_id, epoch, level
        case ReqLock():
            raw.type = FrameType.REQ_LOCK
        case LockOk(grant):
            raw.type, raw.grant = FrameType.LOCK_OK, grant
        case DropLock(grant):
            raw.type, raw.grant = FrameType.DROP_LOCK, grant
        case LockReleased(grant):
            raw.type, raw.grant = FrameType.LOCK_RELEASED, grant
        case Footprint(footprint_bytes):
            raw.type, raw.footprint_bytes = FrameType.FOOTPRINT, footprint_bytes
        case Waiters(waiters, idle_microseconds):
            raw.type, raw.waiters, raw.idle_microseconds = FrameType.WAITERS, waiters, idle_microseconds
        case Refused(text, final):
            raw.type, raw.text, raw.state = FrameType.REFUSED, field_of(text, TEXT_BYTES), final
        case DrainReport(grant, drain):
            raw.type, raw.grant, raw.drain = FrameType.DRAIN_REPORT, grant, drain
        case Notice(text):
            raw.type, raw.text = FrameType.NOTICE, field_of(text, TEXT_BYTES)
        case Text(text):
            raw.type, raw.text = FrameType.TEXT, field_of(text, TEXT_BYTES)
        case AskReason(memory):
            raw.type, raw.request = FrameType.ASK_REASON, memory
        case Reason(text, memory):
            raw.type, raw.request, raw.text = FrameType.REASON, memory, field_of(text, TEXT_BYTES)
        case RefuseGrowth(request, text):
            raw.type, raw.request, raw.text = FrameType.REFUSE_GROWTH, request, field_of(text, TEXT_BYTES)
        case Idle():
            raw.type = FrameType.IDLE
        case Grow() | Allot() | Evict() | Resident() | Arena() | Terms() | Watch() | Progress() | Limit():
            _encode_plain(raw, frame)
        case NotShared(request, text):
            raw.type, raw.request, raw.text = FrameType.NOT_SHARED, request, field_of(text, TEXT_BYTES)
        case Join() | Leave() | Joined() | Gang() | Share() | Unshare() | OpenShared() | AskShared() | Shared():
            _encode_plain(raw, frame)
        case _:
            assert_never(frame)
    return bytes(ffi.buffer(raw))


def decode(data: bytes | bytearray | memoryview) -> Frame:
    """The frame in ``FRAME_BYTES`` bytes; WireError when they are none, VersionError when it is another version's."""
    if len(data) != FRAME_BYTES:
        raise WireError(f"a frame has {FRAME_BYTES} bytes, not {len(data)}")
    raw: Any = ffi.from_buffer(_FRAME_POINTER, data)
    if raw.magic != MAGIC:
        raise WireError(f"a frame begins with 0x{MAGIC:02x}, not 0x{raw.magic:02x}")
    if raw.version != VERSION:
        raise VersionError(raw.version)
    match raw.type:
        case FrameType.REGISTER:
            return _decode_register(raw)
        case FrameType.SCHED_ON:
            return SchedOn(raw.client_id, raw.epoch, raw.level)
        case FrameType.REQ_LOCK:
            return ReqLock()
        case FrameType.LOCK_OK:
            return LockOk(raw.grant)
        case FrameType.DROP_LOCK:
            return DropLock(raw.grant)
        case FrameType.LOCK_RELEASED:
            return LockReleased(raw.grant)
        case FrameType.FOOTPRINT:
            return Footprint(raw.footprint_bytes)
        case FrameType.WAITERS:
            return Waiters(raw.waiters, raw.idle_microseconds)
        case FrameType.REFUSED:
            return Refused(_text(raw.text), bool(raw.state))
        case FrameType.DRAIN_REPORT:
            return _decode_drain_report(raw)
        case FrameType.NOTICE:
            return Notice(_text(raw.text))
        case FrameType.TEXT:
            return Text(_text(raw.text))
        case FrameType.ASK_REASON:
            return AskReason(raw.request)
        case FrameType.REASON:
            return Reason(_text(raw.text), raw.request)
        case FrameType.REFUSE_GROWTH:
            return RefuseGrowth(raw.request, _text(raw.text))
        case FrameType.NOT_SHARED:
            return NotShared(raw.request, _text(raw.text))
        case FrameType.IDLE:
            return Idle()
        case known if known in _PLAIN_FRAMES:
            return _decode_plain(raw)
        case unknown:
            raise WireError(f"frame type {unknown} is unknown")


def _encode_register(raw: Any, frame: Register) -> None:
    if len(frame.device_uuid) != UUID_BYTES:
        raise ValueError(f"a device UUID has {UUID_BYTES} bytes, not {len(frame.device_uuid)}")
    raw.type = FrameType.REGISTER
    raw.state = frame.state
    raw.backend = frame.backend
    raw.swaps = frame.swaps
    raw.level = frame.level
    raw.pid = frame.pid
    raw.epoch = frame.epoch
    raw.grant = frame.grant
    raw.footprint_bytes = frame.footprint_bytes
    raw.total_bytes = frame.total_bytes
    raw.device_uuid = frame.device_uuid
    raw.text = field_of(frame.command, TEXT_BYTES)
    raw.name_hint = field_of(frame.name_hint, NAME_BYTES)


def _decode_register(raw: Any) -> Register:
    try:
        state = State(raw.state)
    except ValueError:
        raise WireError(f"client state {raw.state} is unknown") from None
    try:
        backend = Backend(raw.backend)
    except ValueError:
        raise WireError(f"memory backend {raw.backend} is unknown") from None
    return Register(
        device_uuid=bytes(raw.device_uuid),
        total_bytes=raw.total_bytes,
        state=state,
        backend=backend,
        pid=raw.pid,
        epoch=raw.epoch,
        grant=raw.grant,
        footprint_bytes=raw.footprint_bytes,
        command=_text(raw.text),
        name_hint=_text(raw.name_hint),
        swaps=bool(raw.swaps),
        level=raw.level,
    )


_PLAIN_TYPES: dict[type, FrameType] = {
    Grow: FrameType.GROW,
    Allot: FrameType.ALLOT,
    Evict: FrameType.EVICT,
    Resident: FrameType.RESIDENT,
    Arena: FrameType.ARENA,
    Terms: FrameType.TERMS,
    Join: FrameType.JOIN,
    Leave: FrameType.LEAVE,
    Joined: FrameType.JOINED,
    Gang: FrameType.GANG,
    Watch: FrameType.WATCH,
    Progress: FrameType.PROGRESS,
    Limit: FrameType.LIMIT,
    Share: FrameType.SHARE,
    Unshare: FrameType.UNSHARE,
    OpenShared: FrameType.OPEN_SHARED,
    AskShared: FrameType.ASK_SHARED,
    Shared: FrameType.SHARED,
}
"""Frames whose fields are called as the layout calls them, in the frame itself or in one part of it."""
_PLAIN_FRAMES = {number: frame for frame, number in _PLAIN_TYPES.items()}
_PARTS = {
    Terms: "terms",
    Join: "gang",
    Leave: "gang",
    Gang: "gang",
    Progress: "progress",
    Watch: "watch",
    Limit: "limit",
    Share: "shared",
    Unshare: "shared",
    OpenShared: "shared",
    AskShared: "shared",
    Shared: "shared",
}
_PART_OF = {frame: _PARTS.get(frame, "memory") for frame in _PLAIN_TYPES}
_IN_PART = {
    part: frozenset(name for name, _ in ffi.typeof(f"struct nvs_wire_{part}").fields) for part in set(_PART_OF.values())
}
"""The fields that are in a part; the others are the frame's own."""


def _place(raw: Any, frame: type, field: str) -> Any:
    part = _PART_OF[frame]
    return getattr(raw, part) if field in _IN_PART[part] else raw


def _encode_plain(raw: Any, frame: Frame) -> None:
    raw.type = _PLAIN_TYPES[type(frame)]
    for field in fields(frame):
        value = getattr(frame, field.name)
        if isinstance(value, str):
            value = field_of(value, CONTAINER_BYTES)
        elif isinstance(value, bytes) and len(value) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(value)}")
        setattr(_place(raw, type(frame), field.name), field.name, value)


def _decode_plain(raw: Any) -> Frame:
    frame = _PLAIN_FRAMES[raw.type]
    values = {}
    for field in fields(frame):
        value = getattr(_place(raw, frame, field.name), field.name)
        values[field.name] = _DECODED[field.name](value) if field.name in _DECODED else value
    made: Frame = frame(**values)
    return made


def _decode_tie(value: int) -> Tie:
    try:
        return Tie(value)
    except ValueError:
        raise WireError(f"tie {value} is unknown") from None


def _decode_priority(value: int) -> Priority:
    try:
        return Priority(value)
    except ValueError:
        raise WireError(f"priority {value} is unknown") from None


def _decode_when_full(value: int) -> WhenFull:
    try:
        return WhenFull(value)
    except ValueError:
        raise WireError(f"{value} is unknown as what to do where memory is full") from None


def _decode_drain_report(raw: Any) -> DrainReport:
    try:
        return DrainReport(raw.grant, Drain(raw.drain))
    except ValueError:
        raise WireError(f"state {raw.drain} of a drain is unknown") from None


def _text(field: Any) -> str:
    return text_in(bytes(ffi.buffer(field)))


_DECODED: dict[str, Callable[[Any], Any]] = {
    "key": lambda field: bytes(ffi.buffer(field)),
    "tie": _decode_tie,
    "priority": _decode_priority,
    "when_full": _decode_when_full,
    "container": _text,
    "was_complete": bool,
}
"""What becomes of fields that are no plain numbers."""
