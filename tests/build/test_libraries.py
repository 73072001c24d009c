"""What the shipped libraries ask of the programs that load them, and what they offer."""

from __future__ import annotations

import pytest

import build_native
from nvshare import paths
from tests.build import elf
from tests.conftest import libraries_of

LIBC_FAMILY = {"libc.so.6", "libdl.so.2", "libpthread.so.0"}
LOADERS = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
MACHINES = pytest.mark.parametrize("machine", build_native.MACHINES)


@pytest.fixture(scope="session", params=build_native.MACHINES)
def shim(request: pytest.FixtureRequest) -> elf.Elf:
    """The shim of each machine."""
    return elf.read(libraries_of(request.param).shim)


@MACHINES
@pytest.mark.parametrize("library", ["shim", "cuda", "nvml"])
def test_old_glibc_suffices(machine: str, library: str) -> None:
    """No library needs a symbol that came after glibc 2.17."""
    versions = elf.read(getattr(libraries_of(machine), library)).glibc_versions
    assert versions, "a library that uses no versioned symbol was not read right"
    assert max(versions) <= (2, 17)


@pytest.mark.parametrize("library", ["shim", "cuda", "nvml"])
def test_machines_are_equals(library: str) -> None:
    """A library offers the same on every machine."""
    first, *others = (elf.read(getattr(libraries_of(machine), library)).exports for machine in build_native.MACHINES)
    assert first
    assert all(exports == first for exports in others)


@MACHINES
@pytest.mark.parametrize("library", ["shim", "cuda", "nvml", "cuda_by_name"])
def test_says_nothing_of_the_builder(machine: str, library: str) -> None:
    """Wherever it was built, the library does not tell the folder."""
    assert str(build_native.ROOT).encode() not in getattr(libraries_of(machine), library).read_bytes()


@MACHINES
@pytest.mark.parametrize("library", ["shim", "cuda", "nvml", "cuda_by_name"])
def test_hardened(machine: str, library: str) -> None:
    """Stacks are not executable, and the loader writes to no code."""
    read = elf.read(getattr(libraries_of(machine), library))
    assert not read.executable_stack
    assert "TEXTREL" not in read.tags


def test_shim_needs_only_libc(shim: elf.Elf) -> None:
    """Nothing but libc's own parts, under names that musl takes for its own too."""
    assert shim.needed <= LIBC_FAMILY
    assert not {symbol for symbol in shim.wanted if symbol.startswith(("Py", "_Py"))}


def test_shim_has_no_constructor(shim: elf.Elf) -> None:
    """Loading it runs none of its code."""
    assert not shim.tags & {"INIT", "INIT_ARRAY", "PREINIT_ARRAY"}


def test_shim_name(shim: elf.Elf) -> None:
    """Its name is the one that is mounted into containers."""
    assert shim.soname == paths.LIBRARY_NAME


@MACHINES
@pytest.mark.parametrize(
    ("library", "soname", "prefix"), [("cuda", "libcuda.so.1", "cu"), ("nvml", "libnvidia-ml.so.1", "nvml")]
)
def test_simulated_driver(machine: str, library: str, soname: str, prefix: str) -> None:
    """The simulated driver has the real one's names and exports nothing else."""
    read = elf.read(getattr(libraries_of(machine), library))
    assert read.soname == soname
    assert read.needed <= LIBC_FAMILY | LOADERS | {"libm.so.6", "librt.so.1"}
    assert not {symbol for symbol in read.exports if not symbol.startswith(prefix)}


@MACHINES
def test_driver_by_its_other_name(machine: str) -> None:
    """libcuda.so is no second driver, and finds the first one beside it."""
    library = libraries_of(machine).cuda_by_name
    read = elf.read(library)
    assert (library.name, read.soname) == ("libcuda.so", "libcuda.so")
    assert read.needed == {"libcuda.so.1"}
    assert not read.exports
    assert library.parent == libraries_of(machine).cuda.parent


def test_shim_globals_are_prefixed() -> None:
    """Between its files every name begins with nvs_, so that a static link or a debugger shows whose it is."""
    hooks = elf.read(libraries_of("x86_64").shim).exports
    target = build_native.TARGETS["x86_64"]
    library = next(library for library in build_native.LIBRARIES if library.file_name == paths.LIBRARY_NAME)
    objects = (build_native.object_of(target, library, source) for source in library.sources())
    names = {symbol for path in objects for symbol in elf.defined_globals(path)}
    assert names
    assert not {symbol for symbol in names - hooks if not symbol.startswith("nvs_")}
