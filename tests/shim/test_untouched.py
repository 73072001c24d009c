"""A process that never calls CUDA does not notice the library: it makes the same system calls."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build import elf
from tests.conftest import Libraries

FORKS = "for i in 1 2 3 4 5 6 7 8; do /bin/true; (cd / && /bin/true); done"
COMMANDS = {
    "true": ["/bin/true"],
    "python": [sys.executable, "-S", "-c", "pass"],
    "python looks symbols up": [sys.executable, "-S", "-c", "import ctypes; ctypes.CDLL(None).getpid()"],
    "shell": ["/bin/sh", "-c", FORKS],
}
# How a library's segments are mapped is its own affair; and signals arrive when they do.
LEFT_OUT = {"mmap", "mprotect", "munmap", "brk", "rt_sigreturn"}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_same_system_calls(
    command: list[str], tool: Callable[[str], str], compile_c: Callable[..., Path], libraries: Libraries, tmp_path: Path
) -> None:
    """Compared with an empty library that needs the same others, nothing is called that was not, nothing more often."""
    needed = [f"-l:{name}" for name in sorted(elf.read(libraries.shim).needed)]
    empty = compile_c("programs/empty.c", "libempty.so", "-shared", "-fPIC", "-Wl,--no-as-needed", *needed)
    with_empty = system_calls(tool("strace"), command, empty, tmp_path / "empty")
    with_ours = system_calls(tool("strace"), command, libraries.shim, tmp_path / "ours")
    assert with_ours == with_empty


def system_calls(strace: str, command: list[str], preload: Path, traces: Path) -> Counter[str]:
    """How often a command and its children make each system call, without those that map a library."""
    traces.mkdir()
    trace = [strace, "-f", "-ff", "-o", str(traces / "trace"), "-E", f"LD_PRELOAD={preload}", *command]
    subprocess.run(trace, check=True, timeout=60, stdout=subprocess.DEVNULL)
    lines = (line for file in traces.iterdir() for line in file.read_text(errors="replace").splitlines())
    names = (match[1] for line in lines if (match := re.match(r"([a-z0-9_]+)\(", line)))
    return Counter(name for name in names if name not in LEFT_OUT)
