"""Protocol version 1, that of nvshare v0.1.1: one packed message of 537 bytes, the same in both directions."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from nvshare.protocol.texts import text_in

VERSION: Final = 1
_LAYOUT = struct.Struct("<B254s254sQ20s")
MESSAGE_BYTES = _LAYOUT.size


class LegacyError(Exception):
    """The peer sent bytes that are no version 1 message; the message says why."""


class LegacyType(IntEnum):
    """What a message says. SCHED_ON, SCHED_OFF and SET_TQ are commands when nvsharectl sends them."""

    REGISTER = 1
    SCHED_ON = 2
    SCHED_OFF = 3
    REQ_LOCK = 4
    LOCK_OK = 5
    DROP_LOCK = 6
    LOCK_RELEASED = 7
    SET_TQ = 8


FIRST_BYTES = range(min(LegacyType), max(LegacyType) + 1)
"""What a version 1 connection begins with; the magic of version 2 is none of them."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``data`` is the client id in 16 hex digits in the answer to REGISTER, and SET_TQ's seconds."""

    type: LegacyType
    pod_name: str = ""
    pod_namespace: str = ""
    client_id: int = 0
    data: str = ""


def encode(message: Message) -> bytes:
    """The ``MESSAGE_BYTES`` bytes of a message; ValueError for a text that does not fit."""
    return _LAYOUT.pack(
        message.type,
        _to_field(message.pod_name, 254),
        _to_field(message.pod_namespace, 254),
        message.client_id,
        _to_field(message.data, 20),
    )


def decode(data: bytes | bytearray | memoryview) -> Message:
    """The message in ``MESSAGE_BYTES`` bytes; LegacyError when they are none."""
    if len(data) != MESSAGE_BYTES:
        raise LegacyError(f"a version 1 message has {MESSAGE_BYTES} bytes, not {len(data)}")
    kind, pod_name, pod_namespace, client_id, text = _LAYOUT.unpack(data)
    if kind not in FIRST_BYTES:
        raise LegacyError(f"version 1 message type {kind} is unknown")
    return Message(LegacyType(kind), text_in(pod_name), text_in(pod_namespace), client_id, text_in(text))


def _to_field(text: str, size: int) -> bytes:
    field = text.encode("utf-8")
    if len(field) >= size:
        raise ValueError(f"{text!r} is longer than the {size - 1} bytes that a version 1 message has for it")
    return field
