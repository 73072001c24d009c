"""Whether shared memory, which host memory for swapping is, has huge pages."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

SETTING: Final = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
"""Where the kernel says it, and is told."""


def chosen() -> str:
    """The kernel's word for what is chosen, as ``advise``; empty: it does not say."""
    with suppress(OSError):
        # It names all that can be chosen, and has what is chosen in brackets.
        return SETTING.read_text().partition("[")[2].partition("]")[0]
    return ""
