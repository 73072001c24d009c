"""The page that the members of a gang share, as the scheduler makes it; ``gang.h`` gives the layout, and says what for.

Nothing of cffi leaves this module.
"""

from __future__ import annotations

import mmap
import struct
from typing import Any, Final

from nvshare.protocol.layout import ffi, lib

SLOTS: Final[int] = lib.NVS_GANG_SLOTS
PAGE_BYTES: Final[int] = -(-ffi.sizeof("struct nvs_gang_page") // mmap.PAGESIZE) * mmap.PAGESIZE
"""Of a page: what a file of it has."""

_WORD: Final = struct.Struct("=Q")
_ABSENT: Final[int] = ffi.offsetof("struct nvs_gang_page", "absent")
_GRANTED: Final[int] = ffi.offsetof("struct nvs_gang_page", "granted")


def head(slots: int) -> bytes:
    """How a new page for so many members begins; all behind it is zero."""
    page: Any = ffi.new("struct nvs_gang_page *")
    page.magic, page.slots = lib.NVS_GANG_MAGIC, slots
    return bytes(ffi.buffer(page, ffi.offsetof("struct nvs_gang_page", "statuses")))


def mark_absent(page: mmap.mmap, slot: int) -> None:
    """Says in a page that the client of a slot is gone, for good."""
    (absent,) = _WORD.unpack_from(page, _ABSENT)
    _WORD.pack_into(page, _ABSENT, absent | 1 << slot)


def count_grant(page: mmap.mmap, slot: int) -> None:
    """Says in a page that the member of a slot has the lock once more, before that one hears of it."""
    offset = _GRANTED + slot * _WORD.size
    (granted,) = _WORD.unpack_from(page, offset)
    _WORD.pack_into(page, offset, granted + 1)


def absent_slots(page: mmap.mmap) -> set[int]:
    """Whose clients are gone."""
    (absent,) = _WORD.unpack_from(page, _ABSENT)
    return {slot for slot in range(SLOTS) if absent >> slot & 1}
