"""One segment of an arena, or a pack: a memory file whose size never changes, filled with pages piece by piece."""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Final

from nvshare import huge_pages

PIECE_BYTES: Final = 64 << 20
"""What is filled at a time: 25 ms of one thread (403 ms/GiB were measured with pages of 4 KiB)."""

_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_MADV_HUGEPAGE = 14
"""The kernel's number; Python's mmap names it only where the C library of its build did."""


def make(size_bytes: int, *, is_pack: bool = False) -> int:
    """The descriptor of a new one without pages; OSError. Whoever gets the descriptor can't change the size."""
    name = "nvshare-pack" if is_pack else "nvshare-arena"
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size_bytes)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SIZE if is_pack else _SIZE | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def seal(pack: int) -> None:
    """From now on nobody can write to a pack, whoever has it; OSError: somebody might, who has it mapped."""
    fcntl.fcntl(pack, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL)


def fill(descriptor: int, start: int, size_bytes: int, *, huge: bool) -> None:
    """Gives a part of a segment its pages, which this process's cgroup pays for; OSError.

    The interpreter is free meanwhile. ``huge``: ask for huge pages (see ``must_ask_for_huge_pages``).
    """
    if not huge:
        os.posix_fallocate(descriptor, start, size_bytes)
        return
    # Only memory that is written to through a mapping gets huge pages that have to be asked for.
    with mmap.mmap(descriptor, size_bytes, offset=start) as mapped, memoryview(mapped) as view:
        mapped.madvise(_MADV_HUGEPAGE)
        zeroes = os.open("/dev/zero", os.O_RDONLY | os.O_CLOEXEC)
        try:
            filled = 0
            while filled < size_bytes:
                with view[filled:] as rest:
                    filled += os.readv(zeroes, [rest])
        finally:
            os.close(zeroes)


def must_ask_for_huge_pages() -> bool:
    """Whether shared memory gets huge pages only where a mapping asks for them. Otherwise it has them, or can't."""
    return huge_pages.chosen() == "advise"
