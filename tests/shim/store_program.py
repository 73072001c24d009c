"""programs/store: the library's own object files, linked with a program in place of client, room and mover."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import build_native
from tests.programs.compiler import WARNINGS

FOLDER = Path(__file__).parent / "programs" / "store"
CASES = re.findall(r"\bCASE\((\w+)\)", (FOLDER / "main.c").read_text().split("#define CASE(name)")[1])
CSRC = build_native.SOURCES / "nvshare" / "shim" / "csrc"
# What the program itself stands for, by the beginning of the path; and the preload's dlsym, of which it has no need.
REPLACED = (
    *("client/", "start.c", "memory/room", "memory/swap/mover", "memory/swap/flights", "memory/swap/contents"),
    *("memory/swap/copies", "memory/swap/arena", "memory/swap/granules"),
    *("memory/swap/pieces", "memory/swap/late", "memory/swap/surplus", "memory/away/"),
)
LEFT_OUT = ("driver/loader.",)


def program(target: build_native.Target, driver: Path, folder: Path) -> Path:
    """Links it with the target's objects, which were brought up to date, and this driver."""
    library = build_native.LIBRARIES[0]
    sources = (source for source in library.sources() if not is_left_out(source))
    objects = [build_native.object_of(target, library, source) for source in sources]
    output = folder / "store"
    includes = (f"-I{CSRC}", f"-I{CSRC.parent.parent}")
    command = [*target.compiler, *target.flags, *WARNINGS, "-std=gnu11", "-pthread", *includes]
    subprocess.run([*command, *FOLDER.glob("*.c"), *objects, "-Wl,--no-as-needed", driver, "-o", output], check=True)
    return output


def is_left_out(source: Path) -> bool:
    """Whether the program has something else in place of a file of the library."""
    return source.relative_to(CSRC).as_posix().startswith((*REPLACED, *LEFT_OUT))
