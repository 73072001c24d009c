"""What cffi makes of the headers is what the C compiler makes of them: sizes, places, numbers."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import build_native
import nvshare.protocol.layout as shared
from tests import c_parts


def asserts(ffi: Any, lib: Any) -> Iterator[str]:
    """A C assertion of each thing that cffi knows."""
    _, structs, unions = ffi.list_types()
    for kind, names in (("struct", structs), ("union", unions)):
        for name in names:
            # One without a name is a part of another.
            if name.startswith("$"):
                continue
            whole = f"{kind} {name}"
            yield f"sizeof({whole}) == {ffi.sizeof(whole)}"
            for member, field in ffi.typeof(whole).fields or ():
                if member:
                    yield f"offsetof({whole}, {member}) == {field.offset}"
                    yield f"sizeof((({whole} *)0)->{member}) == {ffi.sizeof(field.type)}"
    for name in dir(lib):
        if isinstance(value := getattr(lib, name), int):
            yield f"(unsigned long long){name} == {value & 2**64 - 1}ULL"


def disagreements(folder: Path, headers: tuple[str, ...], ffi: Any, lib: Any) -> str:
    """What the compiler says of them."""
    source = folder / "layout.c"
    lines = [f'#include "{name}"' for name in headers]
    lines += [f'_Static_assert({text}, "");' for text in asserts(ffi, lib)]
    source.write_text("\n".join(lines) + "\n")
    assert len(lines) > len(headers) + 100
    target, root = build_native.TARGETS[platform.machine()], build_native.SOURCES / "nvshare"
    command = [*target.compiler, "-std=gnu11", f"-I{root}", f"-I{root / c_parts.CSRC}"]
    object_file = str(folder / "layout.o")
    return subprocess.run([*command, "-c", str(source), "-o", object_file], capture_output=True, text=True).stderr


def test_of_the_product(tmp_path: Path) -> None:
    """The committed one."""
    headers = tuple(f"protocol/{name}" for name in ("wire.h", "gang.h", "catalogue.h", "report.h"))
    assert not disagreements(tmp_path, headers, shared.ffi, shared.lib)


def test_of_the_tests(tmp_path: Path) -> None:
    """The one by which Python calls the library's parts."""
    assert not disagreements(tmp_path, c_parts.HEADERS, c_parts.ffi, c_parts.lib)
