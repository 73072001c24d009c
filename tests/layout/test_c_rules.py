"""Who may call what, in C."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.layout.tree import PACKAGE, below, c_code, c_uses, name

SHIM = PACKAGE / "shim" / "csrc"
SIMULATOR = PACKAGE / "simgpu" / "csrc"

c_files = pytest.mark.parametrize("path", below(PACKAGE, ".c", ".h"), ids=name)

# What only one file of the shim may call, and which file.
ONLY_IN = {
    "resolve.c": r"(?:dlsym|dlvsym|dlopen|dlclose)",
    "client.c": r"(?:socket|connect|bind|listen|accept4?|send|sendto|sendmsg|recv|recvfrom|recvmsg|shutdown)",
    "log.c": r"(?:exit|_exit|_Exit|quick_exit|abort|f?printf|v?dprintf|puts|perror|syslog)",
    "config.c": r"(?:getenv|secure_getenv)",
}
NOWHERE = r"(?:gettimeofday|time|sleep|usleep|alarm|signal|sigaction|setenv|putenv|unsetenv|system|popen|fork)"
# Files that decide and do nothing else: they may include only what cannot act.
PURE = ("lease.c", "pace.c")
PURE_INCLUDES = {"stdint.h", "stdbool.h", "stddef.h", "string.h", "limits.h"}


@pytest.mark.parametrize(("owner", "words"), ONLY_IN.items())
def test_one_file_owns_a_call(owner: str, words: str) -> None:
    """Symbols are looked up, sockets used, the process ended and the environment read in one file each."""
    strangers = {
        f"{name(path)}:{line}" for path in below(SHIM, ".c", ".h") if path.name != owner for line in c_uses(path, words)
    }
    assert not strangers


@pytest.mark.parametrize("path", below(SHIM, ".c", ".h"), ids=name)
def test_a_guest_leaves_the_house_alone(path: Path) -> None:
    """The shim reads no clock that jumps, does not nap, leaves signals and environment alone."""
    assert not c_uses(path, NOWHERE)
    assert not re.search(r"\b(?:CLOCK_REALTIME|environ)\b", c_code(path))


@pytest.mark.parametrize("file_name", PURE)
def test_pure_files_include_nothing_that_acts(file_name: str) -> None:
    """Lease and pacing get time as an argument and answer with what is to be done."""
    path = SHIM / file_name
    own = {file_name.replace(".c", ".h"), *PURE_INCLUDES, "wire.h"}
    included = set(re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE))
    assert {Path(header).name for header in included} <= own


@c_files
def test_a_file_says_what_it_is(path: Path) -> None:
    """Each file begins with the licence and one comment: what it owns, which lock protects what."""
    lines = path.read_text().splitlines()
    assert lines[0] == "/* SPDX-License-Identifier: Apache-2.0 */"
    assert lines[1].startswith("/*")
