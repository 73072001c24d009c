"""Reads the records of simulated devices: which process executed what on them, from when to when.

The layout is that of ``csrc/shared/record.h``. ``turns`` says what a record adds up to.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from nvshare.simgpu.turns import Kind, Span

_HEADER = struct.Struct("<QQQ")
_ENTRIES_OFFSET = 4096
_ENTRY = struct.Struct("<QQQQQII24s")
_MAGIC = 0x3244524F434552


def record_path(state_dir: Path, index: int) -> Path:
    """The file of device ``index``."""
    return state_dir / f"record-{index}"


def read(state_dir: Path, index: int, newest: int | None = None) -> list[Span]:
    """What device ``index`` has executed, in the order of completion; of that only the ``newest`` so many, if given.

    The newest million or so operations are kept. A device that nobody initialized has executed nothing. Raises
    ``ValueError`` for a file that is not a record.
    """
    path = record_path(state_dir, index)
    if not path.exists():
        return []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        magic, capacity, following = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError(f"{path} is not the record of a device")
        kept = capacity if newest is None else min(capacity, newest)
        numbers = range(max(0, following - kept), following)
        spans = (_span(data, number, capacity) for number in numbers)
        return [span for span in spans if span is not None]


def _span(data: mmap.mmap, number: int, capacity: int) -> Span | None:
    """One entry; None while it is being written, or when the ring has come round meanwhile."""
    offset = _ENTRIES_OFFSET + number % capacity * _ENTRY.size
    sequence, client, start_ns, end_ns, size, pid, kind, name = _ENTRY.unpack_from(data, offset)
    if sequence != number + 1:
        return None
    return Span(pid, Kind(kind), name.rstrip(b"\0").decode(errors="replace"), start_ns, end_ns, client, size)
