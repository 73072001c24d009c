"""Who may call what, in C."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.layout.tree import PACKAGE, at, below, c_code, c_uses, circle, includes, line_of, name, nobody, text

SHIM = PACKAGE / "shim" / "csrc"
C_FILES = below(PACKAGE, ".c", ".h")
SHIM_FILES = below(SHIM, ".c", ".h")

# Which folder of the shim may include headers of which others; "" is start.c, which wires all of them.
MAY_INCLUDE = {
    "process": set[str](),
    "driver": {"process"},
    "gate": {"driver", "process"},
    "memory": {"driver", "gate", "memory/swap", "process"},
    "memory/swap": {"driver", "gate", "memory", "process"},
    "memory/away": {"gate", "memory/swap", "process"},
    "ties": {"gate", "process"},
    "client": {"gate", "memory", "memory/away", "memory/swap", "process", "ties"},
    "hooks": {"driver", "gate", "memory", "memory/swap", "process", "ties"},
    "": {"client", "gate", "memory", "memory/away", "memory/swap", "process", "ties"},
}
# What only one file of the shim may call, and which; or two.
ONLY_IN = {
    "driver/loader.c": r"(?:dlsym|dlvsym|dlopen|dlmopen|dlclose)",
    "client/connection.c client/pending.c": (
        r"(?:socket|connect|bind|listen|accept4?|send|sendto|sendmsg|recv|recvfrom|recvmsg|shutdown)"
    ),
    "process/log.c": r"(?:exit|_exit|_Exit|quick_exit|abort|f?printf|v?dprintf|puts|perror|syslog)",
    "process/config.c": r"(?:getenv|secure_getenv)",
    "process/mutex.c": r"(?:pthread_mutex_\w+|pthread_cond_(?:timed)?wait)",
}
NOWHERE = r"(?:gettimeofday|time|sleep|usleep|alarm|signal|sigaction|setenv|putenv|unsetenv|system|popen|fork)"
NO_WORD = re.compile(r"\b(?:CLOCK_REALTIME|environ)\b")
# Files that decide and do nothing else: they may include only what cannot act.
PURE = (
    *(f"client/lock_{name}" for name in ("types", "rules", "state")),
    "gate/lead",
    "gate/pace",
    "memory/room_state",
    "memory/room_say",
    "memory/swap/granules",
    "memory/away/sum",
    "process/digest",
    "process/sizes",
    "ties/tie_list",
)
PURE_INCLUDES = {"stdint.h", "stdbool.h", "stddef.h", "string.h", "limits.h"}
PURE_HEADERS = {"protocol/wire.h", "protocol/gang.h", "protocol/size.h", "process/on_missing.h"}

FUNCTION = re.compile(
    r"^(?!static\b|extern\b|typedef\b|else\b|return\b)[a-z_][\w ]*[ *]+(?!__attribute__)(\w+)\(", re.MULTILINE
)


def folder_of(path: Path) -> str:
    """The folder of the shim that a file is in; empty for its root."""
    return path.parent.relative_to(SHIM).as_posix().removeprefix(".")


def unit_of(path: Path) -> str:
    """A header and its C file are one unit."""
    return path.relative_to(SHIM).with_suffix("").as_posix()


def known_headers(path: Path) -> Iterator[tuple[Path, int]]:
    """The shim's headers that a file of it includes, with the lines."""
    for header, line in includes(path).items():
        if header.endswith(".h") and (SHIM / header).is_file():
            yield SHIM / header, line


def test_folders_know_each_other_one_way() -> None:
    """A folder includes headers of those that the table names, and the table names none that it does not need."""
    unused = {(folder, other) for folder, others in MAY_INCLUDE.items() for other in others}
    strangers: list[str] = []
    for path in SHIM_FILES:
        folder = folder_of(path)
        for header, line in known_headers(path):
            other = folder_of(header)
            unused.discard((folder, other))
            if other != folder and other not in MAY_INCLUDE.get(folder, ()):
                strangers.append(f"{at(path, line)}: {folder}/ may not know {other}/")
    nobody(strangers + [f"MAY_INCLUDE: {folder}/ does not need {other}/" for folder, other in sorted(unused)])


def test_no_circle_of_includes() -> None:
    """Nothing includes itself, by whatever way."""
    known: dict[str, set[str]] = {}
    for path in SHIM_FILES:
        own = unit_of(path)
        known.setdefault(own, set()).update({unit_of(header) for header, _ in known_headers(path)} - {own})
    nobody(circle(known))


def test_every_folder_has_a_rule() -> None:
    """No file of the shim is in a folder that the table does not know, and the table knows none that is not there."""
    folders = {folder_of(path) for path in SHIM_FILES}
    nobody(f"{SHIM.name}/{folder}" for folder in sorted(folders ^ MAY_INCLUDE.keys()))


def test_includes_name_the_folder() -> None:
    """A header is named with its folder, from the shim's root or the package's, never from beside or above."""
    pattern = re.compile(r'\s*#\s*include\s*"([^"]+)"')

    def is_right(header: str) -> bool:
        named = "/" in header and ".." not in header
        return header == "hooks.def" or (named and ((SHIM / header).is_file() or (PACKAGE / header).is_file()))

    nobody(
        f"{at(path, number)}: {match[1]}"
        for path in SHIM_FILES
        for number, line in enumerate(text(path).splitlines(), 1)
        if (match := pattern.match(line)) and not is_right(match[1])
    )


def test_one_file_owns_a_call() -> None:
    """Symbols are looked up, sockets used, mutexes taken and the like in one file each, or two."""
    owners = {words: [SHIM / one for one in names.split()] for names, words in ONLY_IN.items()}
    nobody(
        [f"{name(path)} is not there" for paths in owners.values() for path in paths if path not in SHIM_FILES]
        + [
            f"{at(path, line)}: only {' and '.join(map(name, paths))} may"
            for words, paths in owners.items()
            for path in SHIM_FILES
            if path not in paths
            for line in c_uses(path, words)
        ]
    )


def test_a_guest_leaves_the_house_alone() -> None:
    """The shim reads no clock that jumps, does not sleep by the second, leaves signals and environment alone."""
    calls = [at(path, line) for path in SHIM_FILES for line in c_uses(path, NOWHERE)]
    words = [
        f"{at(path, number)}: {match[0]}"
        for path in SHIM_FILES
        for number, line in enumerate(c_code(path).splitlines(), 1)
        if (match := NO_WORD.search(line))
    ]
    nobody(calls + words)


def test_pure_files_include_nothing_that_acts() -> None:
    """The lock's state and pacing get time as an argument and answer with what is to be done."""
    known = {*(f"{pure}.h" for pure in PURE), *PURE_INCLUDES, *PURE_HEADERS}
    headers = [SHIM / header for header in sorted(PURE_HEADERS) if (SHIM / header).is_file()]
    files = [path for path in SHIM_FILES if unit_of(path) in PURE]
    missing = set(PURE) - {unit_of(path) for path in files}
    allowed = [(path, known) for path in files] + [(path, PURE_INCLUDES) for path in headers]
    nobody(
        [f"{unit} is not there" for unit in sorted(missing)]
        + [
            f"{at(path, line)}: {header}"
            for path, may in allowed
            for header, line in includes(path).items()
            if header not in may
        ]
    )


def test_a_prefix_means_that_others_see_it() -> None:
    """What is local to a file has no prefix; functions that others see have their library's."""
    found: list[str] = []
    for path in below(PACKAGE, ".c"):
        code, prefix = c_code(path), "nvs_" if path.is_relative_to(SHIM) else "sim_"
        local = re.compile(rf"^[ \t]*static\b[^;{{=()]*?\b({prefix}\w+)\s*[(\[;=]", re.MULTILINE)
        matches = list(local.finditer(code))
        if path.is_relative_to(SHIM):
            matches += [match for match in FUNCTION.finditer(code) if not match[1].startswith(prefix)]
        found += [f"{line_of(path, code, match.start(1))}: {match[1]}" for match in matches]
    nobody(found)


def test_a_file_says_what_it_is() -> None:
    """Each file begins with the licence and one comment: what it owns, which lock protects what."""
    licence = "/* SPDX-License-Identifier: Apache-2.0 */\n/*"
    nobody(name(path) for path in C_FILES if not text(path).startswith(licence))
