"""Programs that the library cannot help run as if it were not there: musl's, static ones, those with sanitizers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import build_native
from tests.conftest import Libraries, libraries_of
from tests.programs.compiler import ordinary

pytestmark = pytest.mark.soak

LOADING = r"""
#include <dlfcn.h>

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW), *none;
	int (*answer)(void) = dlsym(library, "answer");

	(void)argc;
	dlerror();
	none = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
	return !none && dlerror() ? answer() : 1;
}
"""

COMPILERS = {
    "musl, dynamic": ["musl-gcc"],
    "musl, static": ["musl-gcc", "-static"],
    "glibc, static": ["gcc", "-static"],
    "glibc, dynamic": ["gcc"],
    # A sanitizer looks its own functions up by dlsym before any of them can be called.
    "AddressSanitizer, static": ["gcc", "-fsanitize=address", "-static-libasan"],
    "ThreadSanitizer": ["gcc", "-fsanitize=thread"],
    "ThreadSanitizer, static": ["gcc", "-fsanitize=thread", "-static-libtsan"],
    "UndefinedBehaviorSanitizer": ["gcc", "-fsanitize=undefined"],
    "LeakSanitizer": ["gcc", "-fsanitize=leak"],
}

# Without -O2 zig links checks of its own, which want a newer musl than Debian has.
ARM = [*build_native.TARGETS["aarch64"].compiler[:-1], "aarch64-linux-musl", "-O2"]
MUSL_FOR_ARM = Path("/lib/aarch64-linux-musl")


@pytest.mark.parametrize("compiler", COMPILERS.values(), ids=COMPILERS.keys())
def test_runs_unchanged(
    compiler: list[str], tool: Callable[[str], str], libraries: Libraries, tmp_path: Path, environment: dict[str, str]
) -> None:
    """Exit status and output are those of a run without the library, and nothing is said on stderr."""
    program = ordinary([tool(compiler[0]), *compiler[1:]], tmp_path / "program")
    preloaded = {**environment, "LD_PRELOAD": str(libraries.shim)}
    result = subprocess.run([program], env=preloaded, capture_output=True, text=True, timeout=30)
    assert (result.returncode, result.stdout, result.stderr) == (3, "42 7\n", "")


def test_shared_address_sanitizer(
    tool: Callable[[str], str], libraries: Libraries, tmp_path: Path, environment: dict[str, str]
) -> None:
    """With its runtime in a shared library, a program wants it first: it says so and ends, unless told otherwise."""
    program = ordinary([tool("gcc"), "-fsanitize=address"], tmp_path / "program")
    preloaded = {**environment, "LD_PRELOAD": str(libraries.shim)}
    refused = subprocess.run([program], env=preloaded, capture_output=True, text=True, timeout=30)
    assert refused.returncode == 1
    assert "ASan runtime does not come first in initial library list" in refused.stderr
    allowed = preloaded | {"ASAN_OPTIONS": "verify_asan_link_order=0"}
    result = subprocess.run([program], env=allowed, capture_output=True, text=True, timeout=30)
    assert (result.returncode, result.stdout, result.stderr) == (3, "42 7\n", "")


def compile_loading(compiler: list[str], folder: Path) -> Path:
    """Compiles LOADING."""
    source, program = folder / "program.c", folder / "program"
    source.write_text(LOADING)
    subprocess.run([*compiler, source, "-o", program, "-ldl"], check=True)
    return program


def compile_library(compiler: list[str], folder: Path) -> Path:
    """Compiles the library that LOADING opens."""
    source, library = folder / "library.c", folder / "library.so"
    source.write_text("int answer(void);\nint answer(void) { return 42; }\n")
    subprocess.run([*compiler, "-shared", "-fPIC", source, "-o", library], check=True)
    return library


@pytest.mark.parametrize("compiler", ["musl-gcc", "gcc"])
def test_loads_libraries(
    compiler: str, tool: Callable[[str], str], libraries: Libraries, tmp_path: Path, environment: dict[str, str]
) -> None:
    """A program opens a library and finds what is in it, and nothing of ours where there is no driver."""
    library = compile_library([tool(compiler)], tmp_path)
    program = compile_loading([tool(compiler)], tmp_path)
    preloaded = {**environment, "LD_PRELOAD": str(libraries.shim)}
    result = subprocess.run([program, library], env=preloaded, capture_output=True, text=True, timeout=30)
    assert (result.returncode, result.stderr) == (42, "")


@pytest.fixture
def emulator(tool: Callable[[str], str], system_folder: Callable[[Path], Path]) -> list[str]:
    """What runs a musl program for aarch64 with our library for aarch64 preloaded."""
    system_folder(MUSL_FOR_ARM)
    return [tool("qemu-aarch64-static"), "-E", f"LD_PRELOAD={libraries_of('aarch64').shim}"]


@pytest.mark.timeout(400)  # musl itself is compiled, once for a machine
@pytest.mark.parametrize("linked", ["-dynamic", "-static"])
def test_runs_unchanged_on_arm(linked: str, emulator: list[str], tmp_path: Path, environment: dict[str, str]) -> None:
    """The same of musl's programs for aarch64."""
    program = ordinary([*ARM, linked], tmp_path / "program")
    result = subprocess.run([*emulator, program], env=environment, capture_output=True, text=True, timeout=100)
    assert (result.returncode, result.stdout, result.stderr) == (3, "42 7\n", "")


@pytest.mark.timeout(400)
def test_loads_libraries_on_arm(emulator: list[str], tmp_path: Path, environment: dict[str, str]) -> None:
    """The same of a musl program for aarch64 that opens a library."""
    library = compile_library([*ARM, "-dynamic"], tmp_path)
    program = compile_loading([*ARM, "-dynamic"], tmp_path)
    result = subprocess.run([*emulator, program, library], env=environment, capture_output=True, text=True, timeout=100)
    assert (result.returncode, result.stderr) == (42, "")
