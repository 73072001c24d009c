"""Who may call what, in C."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.layout.tree import PACKAGE, below, c_code, c_uses, name

SHIM = PACKAGE / "shim" / "csrc"
SIMULATOR = PACKAGE / "simgpu" / "csrc"

c_files = pytest.mark.parametrize("path", below(PACKAGE, ".c", ".h"), ids=name)

# Which folder of the shim may include headers of which others; "" is start.c, which wires all of them.
MAY_INCLUDE = {
    "process": set[str](),
    "driver": {"process"},
    "gate": {"driver", "process"},
    "memory": {"driver", "gate", "memory/swap", "process"},
    "memory/swap": {"driver", "gate", "memory", "process"},
    "ties": {"gate", "process"},
    "client": {"gate", "memory", "memory/swap", "process", "ties"},
    "hooks": {"driver", "gate", "memory", "memory/swap", "process", "ties"},
    "": {"client", "gate", "memory", "memory/swap", "process", "ties"},
}
# What only one file of the shim may call, and which; or two.
ONLY_IN = {
    "driver/loader.c": r"(?:dlsym|dlvsym|dlopen|dlmopen|dlclose)",
    "client/connection.c client/pending.c": (
        r"(?:socket|connect|bind|listen|accept4?|send|sendto|sendmsg|recv|recvfrom|recvmsg|shutdown)"
    ),
    "process/log.c": r"(?:exit|_exit|_Exit|quick_exit|abort|f?printf|v?dprintf|puts|perror|syslog)",
    "process/config.c": r"(?:getenv|secure_getenv)",
}
NOWHERE = r"(?:gettimeofday|time|sleep|usleep|alarm|signal|sigaction|setenv|putenv|unsetenv|system|popen|fork)"
# Files that decide and do nothing else: they may include only what cannot act.
PURE = (
    *(f"client/lock_{name}" for name in ("types", "rules", "link", "state", "words")),
    "gate/lead",
    "gate/pace",
    "memory/room_state",
    "memory/room_say",
    "memory/swap/granules",
    "process/digest",
    "process/sizes",
    "ties/tie_list",
)
PURE_INCLUDES = {"stdint.h", "stdbool.h", "stddef.h", "string.h", "limits.h"}
PURE_HEADERS = {"protocol/wire.h", "protocol/gang.h", "protocol/size.h", "process/on_missing.h"}

shim_files = pytest.mark.parametrize("path", below(SHIM, ".c", ".h"), ids=name)


def includes(path: Path) -> set[str]:
    """The headers that a C file includes, as it spells them."""
    return set(re.findall(r'^\s*#\s*include\s*[<"]([^>"]+\.h)[>"]', path.read_text(), re.MULTILINE))


def folder_of(path: Path) -> str:
    """The folder of the shim that a file is in; empty for its root."""
    return path.parent.relative_to(SHIM).as_posix().removeprefix(".")


def unit_of(path: Path) -> str:
    """A header and its C file are one unit."""
    return path.relative_to(SHIM).with_suffix("").as_posix()


def units() -> dict[str, set[str]]:
    """Every unit of the shim, with the units that it includes."""
    found: dict[str, set[str]] = {}
    for path in below(SHIM, ".c", ".h"):
        known = {unit_of(SHIM / header) for header in includes(path) if (SHIM / header).is_file()}
        found.setdefault(unit_of(path), set()).update(known - {unit_of(path)})
    return found


@pytest.mark.parametrize("folder", MAY_INCLUDE)
def test_folders_know_each_other_one_way(folder: str) -> None:
    """A folder includes headers of those that the table names, and the table names none that it does not need."""
    known = {
        other
        for path in below(SHIM, ".c", ".h")
        if folder_of(path) == folder
        for header in includes(path)
        if (SHIM / header).is_file() and (other := folder_of(SHIM / header)) != folder
    }
    assert known == MAY_INCLUDE[folder]


def test_no_circle_of_includes() -> None:
    """Nothing includes itself, by whatever way: taking away what includes nothing, again and again, leaves nothing."""
    left = units()
    while leaves := {unit for unit, known in left.items() if not known & left.keys()}:
        left = {unit: known for unit, known in left.items() if unit not in leaves}
    assert not left


def test_every_folder_has_a_rule() -> None:
    """No file of the shim is in a folder that the table does not know."""
    assert {folder_of(path) for path in below(SHIM, ".c", ".h")} == MAY_INCLUDE.keys()


@shim_files
def test_includes_name_the_folder(path: Path) -> None:
    """A header is named with its folder, from the shim's root or the package's, never from beside or above."""
    quoted = set(re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE)) - {"hooks.def"}
    assert not {header for header in quoted if "/" not in header or ".." in header}
    assert not {header for header in quoted if not (SHIM / header).is_file() and not (PACKAGE / header).is_file()}


@pytest.mark.parametrize(("owner", "words"), ONLY_IN.items())
def test_one_file_owns_a_call(owner: str, words: str) -> None:
    """Symbols are looked up, sockets used, the process ended and the environment read in one file each, or two."""
    owners = {SHIM / one for one in owner.split()}
    assert all(one.is_file() for one in owners)
    strangers = {
        f"{name(path)}:{line}" for path in below(SHIM, ".c", ".h") if path not in owners for line in c_uses(path, words)
    }
    assert not strangers


@shim_files
def test_a_guest_leaves_the_house_alone(path: Path) -> None:
    """The shim reads no clock that jumps, does not sleep by the second, leaves signals and environment alone."""
    assert not c_uses(path, NOWHERE)
    assert not re.search(r"\b(?:CLOCK_REALTIME|environ)\b", c_code(path))


@pytest.mark.parametrize("unit", PURE)
def test_pure_files_include_nothing_that_acts(unit: str) -> None:
    """The lock's state and pacing get time as an argument and answer with what is to be done."""
    known = {*(f"{pure}.h" for pure in PURE), *PURE_INCLUDES, *PURE_HEADERS}
    files = [path for suffix in (".c", ".h") if (path := SHIM / f"{unit}{suffix}").is_file()]
    assert files
    assert all(includes(path) <= known for path in files)
    assert all(includes(SHIM / header) <= PURE_INCLUDES for header in PURE_HEADERS if (SHIM / header).is_file())


@pytest.mark.parametrize("path", below(PACKAGE, ".c"), ids=name)
def test_a_prefix_means_that_others_see_it(path: Path) -> None:
    """What is local to a file has no prefix; functions that others see have their library's."""
    code = c_code(path)
    prefix = "nvs_" if path.is_relative_to(SHIM) else "sim_"
    assert not re.findall(rf"^[ \t]*static\b[^;{{=()]*?\b({prefix}\w+)\s*[(\[;=]", code, re.MULTILINE)
    if path.is_relative_to(SHIM):
        seen = re.findall(
            r"^(?!static\b|extern\b|typedef\b|else\b|return\b)[a-z_][\w ]*[ *]+(\w+)\(", code, re.MULTILINE
        )
        assert not [function for function in seen if not function.startswith(prefix) and function != "__attribute__"]


@c_files
def test_a_file_says_what_it_is(path: Path) -> None:
    """Each file begins with the licence and one comment: what it owns, which lock protects what."""
    lines = path.read_text().splitlines()
    assert lines[0] == "/* SPDX-License-Identifier: Apache-2.0 */"
    assert lines[1].startswith("/*")
