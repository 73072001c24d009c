"""What a call costs that goes through the open gate: the library over a driver that does nothing.

    python bench/gate_pass.py [--threads 1 2 4]

Prints nanoseconds per call for each number of threads, without and with the hook; the difference is the hook, the gate
and pacing, with an event at every 256th call.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import tempfile
from pathlib import Path

from nvshare import paths

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "src" / "nvshare"
SHIM = PACKAGE / "shim" / "lib" / platform.machine() / paths.LIBRARY_NAME


def compile_c(source: str, output: Path, *flags: str) -> Path:
    """Compiles one file of this folder."""
    command = ["gcc", "-std=gnu11", "-O2", "-Wall", "-Werror", f"-I{PACKAGE / 'cuda'}", HERE / source, "-o", output]
    subprocess.run([*command, *flags], check=True)
    return output


def measure(program: Path, driver: Path, threads: int, run_dir: Path) -> tuple[float, float]:
    """Nanoseconds per call, without and with the hook; the gate is open because there is no scheduler."""
    ours = {paths.LD_PRELOAD: str(SHIM), paths.ON_MISSING: "run", paths.RUN_DIR: str(run_dir)}
    command = [program, driver, str(threads)]
    output = subprocess.run(command, env=os.environ | ours, check=True, stdout=subprocess.PIPE, text=True).stdout
    _, straight, hooked = output.split()
    return float(straight), float(hooked)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="What a call costs that goes through the open gate.")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nvshare-") as name:
        folder = Path(name)
        flags = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1"]
        driver = compile_c("idle_driver.c", folder / "libcuda.so.1", *flags)
        program = compile_c("gate_pass.c", folder / "gate_pass", "-pthread", "-ldl")
        for threads in options.threads:
            straight, hooked = measure(program, driver, threads, folder)
            print(f"{threads} threads: {straight:.2f} ns straight, {hooked:.2f} ns through the gate")


if __name__ == "__main__":
    main()
