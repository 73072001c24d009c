"""The report of a process: only where it is asked for, and what it says whatever becomes of the process."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import paths
from nvshare.protocol import report
from nvshare.protocol.report import REPORT_BYTES, Name, Report, Route
from tests.conftest import Libraries
from tests.shim.children import ROOT, Children

NONE = Route(0)
DRIVER = "libcuda.so.1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where reports go."""
    made = tmp_path / "reports"
    made.mkdir()
    return made


@pytest.fixture
def reporting(children: Children, folder: Path) -> Children:
    """Processes with the counting driver that report."""
    return Children(children.environment | {paths.REPORT: str(folder)})


@pytest.fixture
def simulated(environment: dict[str, str], libraries: Libraries, folder: Path) -> dict[str, str]:
    """The environment of a process on a simulated GPU that reports and takes no turns."""
    own = {"LD_PRELOAD": str(libraries.shim), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", paths.ON_MISSING: "run"}
    return environment | own | {paths.REPORT: str(folder)}


@pytest.fixture
def routes(compile_c: Callable[..., Path]) -> Path:
    """The program that looks a name up by a route."""
    return compile_c("programs/routes.c", "routes", "-ldl")


def reports(folder: Path) -> list[Report]:
    """All of them."""
    found = [report.read(path.read_bytes()) for path in sorted(folder.iterdir())]
    assert None not in found
    return [one for one in found if one is not None]


def names(folder: Path) -> dict[str, Name]:
    """The names of the only report."""
    (one,) = reports(folder)
    return {name.text: name for name in one.names}


def test_name_of_the_variable() -> None:
    """C and Python call the variable the same."""
    source = (ROOT / "src/nvshare/shim/csrc/process/report.c").read_text(encoding="utf-8")
    assert re.findall(r'"(NVSHARE_\w+)"', source) == [paths.REPORT]


def test_nothing_unless_it_is_asked_for(children: Children, routes: Path, folder: Path) -> None:
    """A process that was told of no folder opens no file for a report."""
    command = ["strace", "-f", "-e", "trace=openat,open", "-o", folder / "calls", routes, "handle", "cuLaunchKernel"]
    try:
        children.run(*command)
    except FileNotFoundError:
        pytest.skip("strace is not installed")
    calls = (folder / "calls").read_text()
    assert "libcuda.so.1" in calls
    assert "O_CREAT" not in calls


def test_nothing_without_a_driver(reporting: Children, routes: Path, folder: Path) -> None:
    """A process that loads no driver makes no file, even where it looks for the driver's names."""
    reporting.run(routes, "absent", "cuLaunchKernel", "cuInit")
    assert not list(folder.iterdir())


def test_looked_up_by_name(reporting: Children, routes: Path, folder: Path) -> None:
    """dlsym: hooked names as hooked, others that the driver has as the driver's, and none that it has not."""
    reporting.run(routes, "handle", "cuLaunchKernel", "cuDriverGetVersion", "cuNothing")
    found = names(folder)
    assert found["cuLaunchKernel"] == Name("cuLaunchKernel", Route.DLSYM, NONE)
    assert found["cuDriverGetVersion"] == Name("cuDriverGetVersion", NONE, Route.DLSYM)
    assert "cuNothing" not in found


def test_asked_of_the_driver(reporting: Children, routes: Path, folder: Path) -> None:
    """cuGetProcAddress: of what is hooked the symbol that was meant, of the rest the name that was asked for."""
    reporting.run(routes, "v2", "cuMemAlloc", "cuStreamSynchronize")
    found = names(folder)
    assert found["cuMemAlloc_v2"] == Name("cuMemAlloc_v2", Route.PROC_ADDRESS, NONE)
    assert found["cuStreamSynchronize"] == Name("cuStreamSynchronize", NONE, Route.PROC_ADDRESS)


def test_linked(reporting: Children, compile_c: Callable[..., Path], spy: Path, folder: Path) -> None:
    """What a program was linked with passes no look-up, and is reported all the same."""
    program = compile_c("programs/routes.c", "linked", "-DLINKED", str(spy / DRIVER), "-ldl")
    reporting.run(program, "handle", "cuInit")
    assert names(folder)["cuMemcpyHtoD_v2"] == Name("cuMemcpyHtoD_v2", Route.LINKED, NONE)


def test_two_routes(reporting: Children, routes: Path, folder: Path) -> None:
    """A name that was found twice is one, with both routes."""
    reporting.run(routes, "v1", "cuGetProcAddress")
    assert names(folder)["cuGetProcAddress_v2"].hooked == Route.DLSYM | Route.PROC_ADDRESS


FORKS = """
import ctypes, os
driver = ctypes.CDLL("libcuda.so.1")
driver.cuLaunchKernel
if os.fork() == 0:
    driver.cuMemAlloc_v2
    os._exit(0)
os.wait()
"""


def test_forked_child(reporting: Children, folder: Path) -> None:
    """A child has a report of its own, and writes nothing into its parent's."""
    reporting.run(sys.executable, "-c", FORKS)
    first, second = sorted(reports(folder), key=lambda one: len(one.names), reverse=True)
    assert first.pid != second.pid
    assert {"cuLaunchKernel"} <= {name.text for one in (first, second) for name in one.names if "Launch" in name.text}
    of_parent = next(one for one in (first, second) if any(name.text == "cuLaunchKernel" for name in one.names))
    assert "cuMemAlloc_v2" not in {name.text for name in of_parent.names}


WORK = """
import os, signal
from tests.simgpu.device import Device, allocate
device = Device.open()
kept = allocate(8 << 20)
device.spin(0.05)
"""


def test_crash(simulated: dict[str, str], folder: Path) -> None:
    """What was reported before a process was killed is there."""
    code = WORK + "os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", code], env=simulated, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    (one,) = reports(folder)
    (device,) = one.devices
    assert (device.unlocked, device.registered) == (True, False)
    assert device.movable_bytes >= 8 << 20
    assert "cuLaunchKernel" in {name.text for name in one.names}


@pytest.mark.parametrize("reason", ["no folder", "no room for a file"])
def test_no_report(reporting: Children, routes: Path, folder: Path, reason: str) -> None:
    """Where no report can be made the program runs as if none were asked for. A file too long would end it."""
    variables = {paths.REPORT: str(folder / "missing")} if reason == "no folder" else {}

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (REPORT_BYTES - 1, resource.RLIM_INFINITY))

    done = subprocess.run(
        [routes, "handle", "cuInit"],
        env=reporting.environment | variables,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=limit if reason == "no room for a file" else None,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(folder.iterdir())


def test_other_files(tmp_path: Path) -> None:
    """What is no report is told from one."""
    assert report.read(b"") is None
    assert report.read(bytes(REPORT_BYTES)) is None
    assert report.read(os.urandom(REPORT_BYTES)) is None


def test_calls_that_lead_past_us(
    reporting: Children, compile_c: Callable[..., Path], spy: Path, folder: Path, tool: Callable[[str], str]
) -> None:
    """Where RTLD_DEEPBIND leads to the driver, because its tables could not be changed, that is reported."""
    flags = ["-shared", "-fPIC", "-DLINKED", str(spy / DRIVER), "-ldl", "-Wl,-z,now"]
    plugin = compile_c("programs/plugin.c", "plugin.so", *flags)
    opener = compile_c("programs/opener.c", "opener", "-rdynamic", "-ldl")
    refused = [tool("strace"), "-f", "-o", "/dev/null", "-P", "/proc/self/mem", "-e", "inject=openat:error=EACCES"]
    output = reporting.run(*refused, opener, "dn", plugin, "call", "address")
    assert output.splitlines()[1] == DRIVER
    (one,) = [found for found in reports(folder) if found.names]
    by_name = {name.text: name for name in one.names}
    assert by_name["cuMemcpyHtoD_v2"].driver == Route.LINKED
    assert 1 in one.notices


def test_tables_that_were_changed(reporting: Children, compile_c: Callable[..., Path], spy: Path, folder: Path) -> None:
    """Where they could be changed, what was opened with RTLD_DEEPBIND leads to the hooks, and that is reported."""
    flags = ["-shared", "-fPIC", "-DLINKED", str(spy / DRIVER), "-ldl", "-Wl,-z,now"]
    plugin = compile_c("programs/plugin.c", "plugin.so", *flags)
    opener = compile_c("programs/opener.c", "opener", "-rdynamic", "-ldl")
    reporting.run(opener, "dn", plugin, "call", "address")
    (one,) = reports(folder)
    assert (one.deep, one.notices) == (True, frozenset())
    by_name = {name.text: name for name in one.names}
    assert by_name["cuMemcpyHtoD_v2"].hooked & Route.LINKED
