"""The files of catalogues: one is made and sent with SUM, its client writes the sums, and we which block has them.

Its client may write there at any time. So it is read once, and never mapped here.
"""

from __future__ import annotations

import fcntl
import os
from array import array
from collections.abc import Iterable, Sequence

from nvshare.protocol import catalogue

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_ENTRY_BYTES = catalogue.file_bytes(1) - catalogue.file_bytes(0)


def make(key: bytes, room: int) -> int:
    """The descriptor of a new one with room for so many entries; OSError."""
    descriptor = os.memfd_create("nvshare-catalogue", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, catalogue.file_bytes(room))
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        os.pwrite(descriptor, catalogue.head(key, room), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read(descriptor: int, count: int) -> Sequence[int]:
    """The sums of its first ``count`` entries, for which there is room; OSError."""
    return array("Q", catalogue.sums(os.pread(descriptor, count * _ENTRY_BYTES, catalogue.HEAD_BYTES)))


def write(descriptor: int, sums: Sequence[int], blocks: Iterable[int]) -> None:
    """Says which block of a pack has each; OSError."""
    os.pwrite(descriptor, catalogue.entries(sums, blocks), catalogue.HEAD_BYTES)
