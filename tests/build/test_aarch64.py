"""The library for aarch64, run by qemu's user mode on the simulated driver for aarch64."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import build_native
from nvshare import paths
from tests.conftest import Libraries, Scheduler, libraries_of
from tests.programs.compiler import KERNELS, compiled

# The libraries are compiled for the first one.
pytestmark = pytest.mark.timeout(400)

SYSTEM = Path("/usr/aarch64-linux-gnu")
NOT_READY = 802
# qemu keeps a record of every page that its program maps. The simulated driver maps terabytes where it may; this makes
# it do with less.
ADDRESS_SPACE = 12 << 30


@dataclass(frozen=True, slots=True)
class Emulated:
    """How to run a program of the other machine."""

    command: list[str]
    environment: dict[str, str]

    def run(
        self, program: Path, arguments: list[str], inside: dict[str, str], text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Runs it with this input; ``inside`` are variables for the program that qemu itself must not see."""
        settings = [word for name, value in inside.items() for word in ("-E", f"{name}={value}")]
        command = [*self.command, *settings, str(program), *arguments]
        return subprocess.run(
            command,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=100,
            preexec_fn=limit_address_space,
        )


def limit_address_space() -> None:
    """Runs in the child, before qemu."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


@pytest.fixture(scope="module")
def foreign() -> Libraries:
    """The libraries for aarch64."""
    return libraries_of("aarch64")


@pytest.fixture
def emulated(
    tool: Callable[[str], str], system_folder: Callable[[Path], Path], environment: dict[str, str]
) -> Emulated:
    """qemu with Debian's C library for aarch64."""
    own = {name: value for name, value in environment.items() if name != "LD_LIBRARY_PATH"}
    own[paths.SIMGPU_DEVICES] = "1x1GiB"
    return Emulated([tool("qemu-aarch64-static"), "-L", str(system_folder(SYSTEM))], own)


@pytest.fixture
def program(foreign: Libraries, tmp_path: Path) -> Path:
    """work.c for aarch64."""
    return compiled("work", build_native.TARGETS["aarch64"], foreign.cuda, tmp_path)


def test_loads_and_hooks(foreign: Libraries, emulated: Emulated, program: Path) -> None:
    """The preloaded library stands between program and driver: told to fail without a scheduler, submissions fail."""
    inside = {
        "LD_PRELOAD": str(foreign.shim),
        "LD_LIBRARY_PATH": str(foreign.driver_folder),
        paths.ON_MISSING: "fail",
    }
    result = emulated.run(program, [str(KERNELS), "1", "1"], inside)
    assert result.returncode == 1
    assert f"gave {NOT_READY}" in result.stderr


def test_launches(
    foreign: Libraries, emulated: Emulated, program: Path, start_scheduler: Callable[..., Scheduler]
) -> None:
    """With a scheduler the program runs to its end with right results, two processes of it in turns."""
    start_scheduler("--policy", "exclusive", "--quantum", "1")
    inside = {"LD_PRELOAD": str(foreign.shim), "LD_LIBRARY_PATH": str(foreign.driver_folder)}
    result = emulated.run(program, [str(KERNELS), "2", "5"], inside)
    assert (result.returncode, result.stdout) == (0, "right\n"), result.stderr


def test_deep_binding(foreign: Libraries, emulated: Emulated, tmp_path: Path) -> None:
    """A plugin that is opened with RTLD_DEEPBIND reaches the hooks; one in a namespace of its own is told of."""
    include = f"-I{build_native.SOURCES / 'nvshare' / 'cuda'}"
    compiler = [*build_native.TARGETS["aarch64"].compiler, "-std=gnu11", include]
    sources = Path(__file__).parents[1] / "shim" / "programs"
    opener, plugin = tmp_path / "opener", tmp_path / "plugin.so"
    subprocess.run([*compiler, "-rdynamic", sources / "opener.c", "-o", opener, "-ldl"], check=True)
    linked = ["-shared", "-fPIC", "-DLINKED", sources / "plugin.c", foreign.cuda, "-Wl,-z,now", "-ldl"]
    subprocess.run([*compiler, *linked, "-o", plugin], check=True)
    inside = {"LD_PRELOAD": str(foreign.shim), "LD_LIBRARY_PATH": str(foreign.driver_folder)}
    result = emulated.run(opener, ["dn", str(plugin), "call", "address", "data", "open", "own"], inside)
    assert result.stdout.splitlines() == [*["libnvshare.so"] * 4, "plugin.so"], result.stderr
    apart = emulated.run(opener, ["mn", str(plugin), "own", "call"], inside)
    assert apart.stdout.splitlines() == ["plugin.so", "libcuda.so.1"], apart.stderr
    assert "a second libcuda" in apart.stderr


def test_nccl_gets_what_was_given(foreign: Libraries, emulated: Emulated, tmp_path: Path) -> None:
    """A unique id that is passed by value arrives as it was, in calls of linked and of looked-up functions."""
    compiler = [*build_native.TARGETS["aarch64"].compiler, "-std=gnu11"]
    sources = Path(__file__).parents[1] / "shim" / "programs"
    library, program, looking = tmp_path / "libnccl.so.2", tmp_path / "program", tmp_path / "looking.so"
    subprocess.run([*compiler, "-shared", "-fPIC", sources / "nccl.c", "-o", library], check=True)
    user = sources / "nccl_user.c"
    subprocess.run([*compiler, "-DMAIN", user, library, "-ldl", "-o", program], check=True)
    looks_up = ["-shared", "-fPIC", f'-DLOOKED_UP="{library}"']
    subprocess.run([*compiler, *looks_up, user, "-ldl", "-o", looking], check=True)
    folders = f"{tmp_path}:{foreign.driver_folder}"
    inside = {"LD_PRELOAD": str(foreign.shim), "LD_LIBRARY_PATH": folders, paths.ON_MISSING: "run"}
    result = emulated.run(program, [str(looking)], inside, "use 0\nrank 0 3 0\nin 1 rank 0 3 1\ndestroy 0 0 0\n")
    expected = ["0", f"0 nccl InitRank 4 {sum(range(128))} 3", f"0 nccl InitRank 4 {sum(range(1, 129))} 3"]
    assert result.stdout.splitlines() == [*expected, "0 nccl Destroy 1"], result.stderr
