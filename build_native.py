"""Compiles nvshare's C libraries, only what changed: ``python build_native.py TARGET...``.

A target is a machine (the libraries as they are shipped: compiled by zig against glibc 2.17, into the package itself)
or a check that gcc makes for this machine, below ``build/``: ``strict`` with every warning an error, ``asan`` and
``tsan`` with sanitizers. Object files are kept below ``build/native/``.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent
SOURCES = ROOT / "src"
OBJECTS = ROOT / "build" / "native"
GLIBC = "2.17"
MACHINES = ("x86_64", "aarch64")

COMPILE_FLAGS = ("-std=gnu11", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-U_FORTIFY_SOURCE")
# Libraries include what they share as "cuda/abi.h" and "protocol/wire.h".
SHARED_HEADERS = (".",)
LINK_FLAGS = ("-shared", "-Wl,-z,defs", "-Wl,-z,relro", "-Wl,-z,noexecstack", "-pthread")


@dataclass(frozen=True, slots=True)
class Library:
    """One shared library; folders are relative to ``src/nvshare``."""

    file_name: str
    package: str
    source_folders: tuple[str, ...]
    compile_flags: tuple[str, ...] = ()
    needs: str = ""
    """The file of a library above it, of the same package, which the loader loads with it."""
    files: tuple[str, ...] = ()
    """The source files, as folders are given; empty: all that are in the folders."""

    def sources(self) -> list[Path]:
        """The C and assembler files, in a stable order."""
        if self.files:
            return [SOURCES / "nvshare" / name for name in self.files]
        folders = [SOURCES / "nvshare" / folder for folder in self.source_folders]
        return sorted(path for folder in folders for path in (*folder.rglob("*.c"), *folder.rglob("*.S")))

    def export_maps(self) -> list[Path]:
        """The linker's version scripts: what a program can see of it; without one, what the code marks as visible."""
        folders = () if self.files else self.source_folders
        return sorted(path for folder in folders for path in (SOURCES / "nvshare" / folder).rglob("*.map"))


@dataclass(frozen=True, slots=True)
class Target:
    """One way to compile all libraries."""

    name: str
    machine: str
    compiler: tuple[str, ...]
    flags: tuple[str, ...]
    package_root: Path
    left_out: frozenset[str] = frozenset()
    """Names of source files that are not compiled for this target."""

    def output(self, library: Library) -> Path:
        """Where the library is put."""
        return self.package_root / "nvshare" / library.package / "lib" / self.machine / library.file_name


LIBRARIES = (
    # initial-exec: the gate's per-thread mark must cost one instruction, and __tls_get_addr would need the dynamic
    # loader by name, which a musl program does not have.
    Library("libnvshare.so", "shim", ("shim/csrc",), ("-ftls-model=initial-exec",)),
    Library("libcuda.so.1", "simgpu", ("simgpu/csrc/cuda", "simgpu/csrc/shared")),
    Library("libnvidia-ml.so.1", "simgpu", ("simgpu/csrc/nvml", "simgpu/csrc/shared")),
    Library("libcuda.so", "simgpu", ("simgpu/csrc/cuda_by_name",), needs="libcuda.so.1"),
)


def _shipped(machine: str) -> Target:
    compiler = (sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{GLIBC}")
    return Target(machine, machine, compiler, ("-O2", "-Wl,--strip-debug"), SOURCES)


def _checked(name: str, *flags: str) -> Target:
    return Target(name, platform.machine(), ("gcc",), flags, ROOT / "build" / name)


def _sanitized(name: str, *flags: str) -> Target:
    # A sanitizer finds the functions that it replaces by dlsym, before checked code can run: it must get the real one.
    # The order of the library's mutexes is checked in them, too (shim/csrc/process/mutex.h).
    target = _checked(name, "-O1", "-g", "-fno-omit-frame-pointer", "-DNVS_CHECK_ORDER", *flags)
    return replace(target, left_out=frozenset({"loader.S", "loader.c"}))


TARGETS = {
    target.name: target
    for target in (
        *(_shipped(machine) for machine in MACHINES),
        _checked("strict", "-O2", "-Werror", "-Wshadow", "-Wstrict-prototypes"),
        _sanitized("asan", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
        _sanitized("tsan", "-fsanitize=thread"),
    )
}


def build(target: Target, libraries: tuple[Library, ...] = LIBRARIES) -> list[Path]:
    """Brings libraries, by default all, of the target up to date and returns them.

    Raises CalledProcessError when a compiler fails; its messages are on stderr.
    """
    folder = OBJECTS / target.name
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "lock"):
        return [_build_library(target, library) for library in libraries if library.sources()]


def object_of(target: Target, library: Library, source: Path) -> Path:
    """Where the object file of a library's source is put."""
    return OBJECTS / target.name / library.file_name / f"{source.parent.name}-{source.name}.o"


def _build_library(target: Target, library: Library) -> Path:
    folder = OBJECTS / target.name / library.file_name
    folder.mkdir(parents=True, exist_ok=True)
    sources = [source for source in library.sources() if source.name not in target.left_out]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(lambda source: _build_object(target, library, source), sources))
    output = target.output(library)
    command = [*target.compiler, *target.flags, *LINK_FLAGS, f"-Wl,-soname,{library.file_name}"]
    command += [f"-Wl,--version-script={path}" for path in library.export_maps()]
    command += [str(path) for path in objects]
    if library.needs:
        command += ["-Wl,--no-as-needed,-rpath,$ORIGIN", str(output.with_name(library.needs))]
    if not _is_current(output, [*objects, *library.export_maps()], folder / "link", command):
        output.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place: a process that has the old library mapped must keep it.
        temporary = output.with_name(f".{output.name}.{os.getpid()}")
        _run(target, output, [*command, "-o", str(temporary)])
        temporary.replace(output)
        (folder / "link").write_text(_digest(command))
    return output


def _build_object(target: Target, library: Library, source: Path) -> Path:
    output = object_of(target, library, source)
    dependencies = output.with_suffix(".d")
    includes = [f"-I{SOURCES / 'nvshare' / name}" for name in (*library.source_folders, *SHARED_HEADERS)]
    command = [*target.compiler, *target.flags, *COMPILE_FLAGS, *library.compile_flags, *includes, "-c", str(source)]
    stamp = output.with_suffix(".flags")
    # What an assembler file takes in as it is, its compiler does not name.
    taken_in = [path for path in source.parent.glob(f"{source.stem}.*") if source.suffix == ".S"]
    if not _is_current(output, [*_read_dependencies(dependencies, source), *taken_in], stamp, command):
        _run(target, source, [*command, "-MMD", "-MF", str(dependencies), "-o", str(output)])
        stamp.write_text(_digest(command))
    return output


def _is_current(output: Path, inputs: list[Path], stamp: Path, command: list[str]) -> bool:
    """Whether the output is newer than its inputs and was made by this command."""
    if not (output.exists() and stamp.exists() and stamp.read_text() == _digest(command)):
        return False
    made = output.stat().st_mtime_ns
    return all(path.exists() and path.stat().st_mtime_ns <= made for path in inputs)


def _read_dependencies(path: Path, source: Path) -> list[Path]:
    """The files that a compiler's dependency file names; the source alone when there is none yet."""
    if not path.exists():
        return [source]
    _, _, names = path.read_text().partition(":")
    return [Path(name) for name in names.replace("\\\n", " ").split()]


def _digest(command: list[str]) -> str:
    return hashlib.sha256("\0".join(command).encode()).hexdigest()


def _run(target: Target, path: Path, command: list[str]) -> None:
    print(f"{target.name}: {path.relative_to(ROOT)}", file=sys.stderr)
    subprocess.run(command, check=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps two builds of one target apart."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compile nvshare's C libraries, only what changed.")
    parser.add_argument("target", nargs="+", choices=sorted(TARGETS))
    for name in parser.parse_args().target:
        try:
            build(TARGETS[name])
        except subprocess.CalledProcessError as error:
            sys.exit(f"build_native.py: the compiler failed with exit status {error.returncode}")


if __name__ == "__main__":
    main()
