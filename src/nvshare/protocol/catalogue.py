"""What the blocks of a client's host memory sum up to, as bytes of a file; ``catalogue.h`` gives the layout.

Nothing of cffi leaves this module.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from nvshare.protocol.layout import ffi, lib

KEY_BYTES: Final[int] = 8 * lib.NVS_CATALOGUE_KEYS
"""Of the key of the sums, which is random."""
BLOCK_BYTES: Final[int] = lib.NVS_CATALOGUE_BLOCK_BYTES
"""Of a block: a granule of the client's host memory."""
NO_BLOCK: Final[int] = lib.NVS_CATALOGUE_NO_BLOCK
"""In place of a block's number: no block of the pack."""
HEAD_BYTES: Final[int] = ffi.sizeof("struct nvs_catalogue_head")
"""Before the entries."""

_HEAD: Final = struct.Struct(f"={KEY_BYTES}sI4x")
_ENTRY: Final = struct.Struct("=QI4x")


def file_bytes(room: int) -> int:
    """Of a file with room for so many entries."""
    return HEAD_BYTES + room * _ENTRY.size


def head(key: bytes, room: int) -> bytes:
    """How a new file for so many entries begins; all behind it is zero. ValueError: the key has not ``KEY_BYTES``."""
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
    return _HEAD.pack(key, room)


def sums(entries: bytes) -> list[int]:
    """The sum of each entry; ``entries``: the bytes of whole ones. struct.error: they are none."""
    return [found for found, _ in _ENTRY.iter_unpack(entries)]


def entries(sums: Sequence[int], blocks: Iterable[int]) -> bytes:
    """The bytes of all entries, each with its sum, and its block or ``NO_BLOCK``. ValueError: not as many of both."""
    return b"".join(_ENTRY.pack(found, block) for found, block in zip(sums, blocks, strict=True))
