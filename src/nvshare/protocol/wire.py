"""Protocol version 2: frames to and from the bytes whose layout ``wire.h`` gives.

The layout comes from the extension that the C compiler made of the header (build_core.py), so it is written nowhere
else; nothing of cffi leaves this module.
"""

from __future__ import annotations

from dataclasses import fields
from enum import IntEnum
from typing import Any, assert_never

from nvshare._core import ffi, lib
from nvshare.protocol.frames import (
    Allot as Allot,
)
from nvshare.protocol.frames import (
    Arena as Arena,
)
from nvshare.protocol.frames import (
    AskReason as AskReason,
)
from nvshare.protocol.frames import (
    Backend as Backend,
)
from nvshare.protocol.frames import (
    ClientFrame as ClientFrame,
)
from nvshare.protocol.frames import (
    Drain as Drain,
)
from nvshare.protocol.frames import (
    DrainReport as DrainReport,
)
from nvshare.protocol.frames import (
    DropLock as DropLock,
)
from nvshare.protocol.frames import (
    Evict as Evict,
)
from nvshare.protocol.frames import (
    Footprint as Footprint,
)
from nvshare.protocol.frames import (
    Frame as Frame,
)
from nvshare.protocol.frames import (
    Grow as Grow,
)
from nvshare.protocol.frames import (
    LockOk as LockOk,
)
from nvshare.protocol.frames import (
    LockReleased as LockReleased,
)
from nvshare.protocol.frames import (
    Notice as Notice,
)
from nvshare.protocol.frames import (
    Reason as Reason,
)
from nvshare.protocol.frames import (
    Refused as Refused,
)
from nvshare.protocol.frames import (
    RefuseGrowth as RefuseGrowth,
)
from nvshare.protocol.frames import (
    Register as Register,
)
from nvshare.protocol.frames import (
    ReqLock as ReqLock,
)
from nvshare.protocol.frames import (
    Resident as Resident,
)
from nvshare.protocol.frames import (
    SchedOn as SchedOn,
)
from nvshare.protocol.frames import (
    SchedulerFrame as SchedulerFrame,
)
from nvshare.protocol.frames import (
    State as State,
)
from nvshare.protocol.frames import (
    Waiters as Waiters,
)


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
NAME_BYTES: int = lib.NVS_WIRE_NAME_BYTES
FRAME_BYTES: int = ffi.sizeof(_FRAME)


class FrameType(IntEnum):
    """What a frame says."""

    REGISTER = lib.NVS_REGISTER
    SCHED_ON = lib.NVS_SCHED_ON
    REQ_LOCK = lib.NVS_REQ_LOCK
    LOCK_OK = lib.NVS_LOCK_OK
    DROP_LOCK = lib.NVS_DROP_LOCK
    LOCK_RELEASED = lib.NVS_LOCK_RELEASED
    FOOTPRINT = lib.NVS_FOOTPRINT
    WAITERS = lib.NVS_WAITERS
    REFUSED = lib.NVS_REFUSED
    DRAIN_REPORT = lib.NVS_DRAIN_REPORT
    NOTICE = lib.NVS_NOTICE
    ASK_REASON = lib.NVS_ASK_REASON
    REASON = lib.NVS_REASON
    GROW = lib.NVS_GROW
    ALLOT = lib.NVS_ALLOT
    EVICT = lib.NVS_EVICT
    RESIDENT = lib.NVS_RESIDENT
    REFUSE_GROWTH = lib.NVS_REFUSE_GROWTH
    ARENA = lib.NVS_ARENA


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
        case Refused(text):
            raw.type, raw.text = FrameType.REFUSED, _to_field(text, TEXT_BYTES)
        case DrainReport(grant, drain):
            raw.type, raw.grant, raw.drain = FrameType.DRAIN_REPORT, grant, drain
        case Notice(text):
            raw.type, raw.text = FrameType.NOTICE, _to_field(text, TEXT_BYTES)
        case AskReason():
            raw.type = FrameType.ASK_REASON
        case Reason(text):
            raw.type, raw.text = FrameType.REASON, _to_field(text, TEXT_BYTES)
        case RefuseGrowth(request, text):
            raw.type, raw.request, raw.text = FrameType.REFUSE_GROWTH, request, _to_field(text, TEXT_BYTES)
        case Grow() | Allot() | Evict() | Resident() | Arena():
            raw.type = _MEMORY_TYPES[type(frame)]
            _encode_memory(raw, frame)
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
            return Refused(_from_field(raw.text))
        case FrameType.DRAIN_REPORT:
            return _decode_drain_report(raw)
        case FrameType.NOTICE:
            return Notice(_from_field(raw.text))
        case FrameType.ASK_REASON:
            return AskReason()
        case FrameType.REASON:
            return Reason(_from_field(raw.text))
        case FrameType.REFUSE_GROWTH:
            return RefuseGrowth(raw.request, _from_field(raw.text))
        case FrameType.GROW | FrameType.ALLOT | FrameType.EVICT | FrameType.RESIDENT | FrameType.ARENA:
            return _decode_memory(raw)
        case unknown:
            raise WireError(f"frame type {unknown} is unknown")


def _encode_register(raw: Any, frame: Register) -> None:
    if len(frame.device_uuid) != UUID_BYTES:
        raise ValueError(f"a device UUID has {UUID_BYTES} bytes, not {len(frame.device_uuid)}")
    raw.type = FrameType.REGISTER
    raw.state = frame.state
    raw.backend = frame.backend
    raw.swaps = frame.swaps
    raw.pid = frame.pid
    raw.epoch = frame.epoch
    raw.grant = frame.grant
    raw.footprint_bytes = frame.footprint_bytes
    raw.total_bytes = frame.total_bytes
    raw.device_uuid = frame.device_uuid
    raw.text = _to_field(frame.command, TEXT_BYTES)
    raw.name_hint = _to_field(frame.name_hint, NAME_BYTES)


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
        command=_from_field(raw.text),
        name_hint=_from_field(raw.name_hint),
        swaps=bool(raw.swaps),
    )


_MEMORY_TYPES: dict[type, FrameType] = {
    Grow: FrameType.GROW,
    Allot: FrameType.ALLOT,
    Evict: FrameType.EVICT,
    Resident: FrameType.RESIDENT,
    Arena: FrameType.ARENA,
}
_FRAMES_OF = {number: frame for frame, number in _MEMORY_TYPES.items()}
_IN_MEMORY = frozenset(name for name, _ in ffi.typeof("struct nvs_wire_memory").fields)
"""The numbers that are in the frame's ``memory``; the others are its own."""


def _encode_memory(raw: Any, frame: Grow | Allot | Evict | Resident | Arena) -> None:
    for field in fields(frame):
        setattr(raw.memory if field.name in _IN_MEMORY else raw, field.name, getattr(frame, field.name))


def _decode_memory(raw: Any) -> Frame:
    frame = _FRAMES_OF[raw.type]
    numbers = {
        field.name: getattr(raw.memory if field.name in _IN_MEMORY else raw, field.name) for field in fields(frame)
    }
    made: Frame = frame(**numbers)
    return made


def _decode_drain_report(raw: Any) -> DrainReport:
    try:
        return DrainReport(raw.grant, Drain(raw.drain))
    except ValueError:
        raise WireError(f"state {raw.drain} of a drain is unknown") from None


def _to_field(text: str, size: int) -> bytes:
    cut = text.encode("utf-8", "replace")[: size - 1]
    return cut.decode("utf-8", "ignore").encode("utf-8")


def _from_field(field: Any) -> str:
    """Up to the first NUL; what a terminal would obey rather than show is replaced."""
    text = bytes(ffi.buffer(field)).split(b"\0", 1)[0].decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "�" for character in text)
