"""Memory pools whose end comes between two steps of another thread."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import build_native

SOURCES = build_native.SOURCES / "nvshare"
CSRC = SOURCES / "shim" / "csrc"
OWN = [CSRC / "memory" / "pools.c", *(CSRC / "process" / f"{name}.c" for name in ("mutex", "thread", "log"))]


def test_one_that_is_destroyed_meanwhile(compile_c: Callable[..., Path]) -> None:
    """Its record stays until its last allocation is freed, which leaves nothing charged."""
    flags = (f"-I{CSRC}", f"-I{SOURCES}", *(str(source) for source in OWN))
    done = subprocess.run(
        [compile_c("programs/ended_pools.c", "ended_pools", *flags)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split("\n")) == (
        0,
        ["kept: 10000", "allocated: 1000", "freed: 0", "allocated: 1000", "freed: 0", ""],
    )
