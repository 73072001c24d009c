"""The library's own threads."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import build_native

CSRC = build_native.SOURCES / "nvshare" / "shim" / "csrc"


def test_one_that_ends_at_once(compile_c: Callable[..., Path]) -> None:
    """Whoever creates a thread does not touch it afterwards: it may have ended, and its stack may be gone."""
    program = compile_c("programs/ended_threads.c", "ended_threads", f"-I{CSRC}", str(CSRC / "process" / "thread.c"))
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n")
