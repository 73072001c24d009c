"""Compiles the driver of spy_driver.c, and programs against it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection
from pathlib import Path

from tests.shim.entrypoints import PACKAGE, entry_points, is_gated

HERE = Path(__file__).parent
INCLUDES = (f"-I{PACKAGE / 'cuda'}", f"-I{PACKAGE / 'protocol'}")


def compile_c(compiler: str, source: Path, output: Path, *flags: str) -> Path:
    """Compiles one C program or library of the tests."""
    command = [compiler, "-std=gnu11", "-O1", "-g", "-Wall", "-Werror", *INCLUDES]
    subprocess.run([*command, str(source), "-o", str(output), *flags], check=True)
    return output


def build(compiler: str, folder: Path, without: Collection[str] = ()) -> Path:
    """Makes ``folder/libcuda.so.1``; the symbols in ``without`` do not exist in it."""
    folder.mkdir(parents=True, exist_ok=True)
    code = "".join((HERE / name).read_text() for name in ("spy_driver.c", "spy_contexts.h"))
    by_hand = set(re.findall(r"^CUresult (\w+)\(", code, re.MULTILINE))
    lines = [
        f"{'HAND' if point.symbol in by_hand else 'ENTRY'}({point.symbol}, "
        f'"{point.base}", {point.since}, {int(point.per_thread)}, {int(is_gated(point))}, {point.signature})'
        for point in entry_points()
        if point.symbol not in without
    ]
    (folder / "spy_entries.inc").write_text("\n".join(lines) + "\n")
    flags = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic", f"-I{folder}"]
    return compile_c(compiler, HERE / "spy_driver.c", folder / "libcuda.so.1", *flags)
