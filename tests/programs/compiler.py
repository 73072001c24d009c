"""Compiles the C programs of the tests, as the libraries of a target are compiled or otherwise."""

from __future__ import annotations

import subprocess
from pathlib import Path

import build_native

FOLDER = Path(__file__).parent
KERNELS = build_native.SOURCES / "nvshare" / "simgpu" / "kernels.ptx"
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wstrict-prototypes")


def compiled(name: str, target: build_native.Target, driver: Path, folder: Path) -> Path:
    """Compiles ``name``.c into ``folder``, linked with this driver, and returns the program."""
    program = folder / name
    include = f"-I{build_native.SOURCES / 'nvshare' / 'cuda'}"
    command = [*target.compiler, *target.flags, *WARNINGS, "-std=gnu11", "-pthread", include]
    subprocess.run([*command, FOLDER / f"{name}.c", driver, "-o", program], check=True)
    return program


def ordinary(compiler: list[str], program: Path) -> Path:
    """Compiles ordinary.c, which knows nothing of GPUs, with a compiler and its options; returns the program."""
    subprocess.run([*compiler, FOLDER / "ordinary.c", "-o", program, "-pthread"], check=True)
    return program
