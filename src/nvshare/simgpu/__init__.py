"""The simulated GPU: a ``libcuda.so.1`` and a ``libnvidia-ml.so.1`` in software.

A program that loads them, for example by ``environment()``, sees the devices that the text describes and shares their
memory with all other programs that name the same folder. ``record`` tells what the devices executed. README.md beside
this file says what is simulated, and how to add to it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from nvshare import paths

KERNELS_PTX = Path(__file__).parent / "kernels.ptx"
"""The built-in kernels as PTX text: what a program loads, on a simulated device and on a real one."""


def library_dir(machine: str | None = None) -> Path:
    """The folder that has both libraries for a machine architecture, by default this one's.

    Raises FileNotFoundError when this installation has none for it.
    """
    folder = Path(__file__).parent / "lib" / (machine or platform.machine())
    if not (folder / "libcuda.so.1").is_file():
        raise FileNotFoundError(
            f"this installation of nvshare has no simulated driver in {folder}; "
            "install nvshare again, or in a source tree say: make libs"
        )
    return folder


def devices_text(state_dir: Path) -> str:
    """The text of the devices whose state is in ``state_dir``; a process that uses the devices has made it."""
    return os.fsdecode((state_dir / "devices").read_bytes()).strip()


def environment(state_dir: Path, devices: str | None = None, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that make a program use simulated devices whose state is in ``state_dir``.

    ``devices`` is a text such as ``2x16GiB`` and counts only for the first program that uses the folder. ``base`` is
    the environment whose LD_LIBRARY_PATH is kept behind the simulated driver's folder, by default an empty one.
    Raises FileNotFoundError as ``library_dir`` does.
    """
    before = base.get("LD_LIBRARY_PATH") if base else None
    variables = {
        "LD_LIBRARY_PATH": f"{library_dir()}:{before}" if before else str(library_dir()),
        paths.SIMGPU_DIR: str(state_dir),
    }
    if devices is not None:
        variables[paths.SIMGPU_DEVICES] = devices
    return variables
