"""What doctor says of programs that are shared, and of programs that escape, each as a process of its own."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import build_native
from nvshare import paths, simgpu
from nvshare.paths import RunDir
from tests.conftest import Libraries
from tests.ctl.program import ctl
from tests.polling import poll_until
from tests.programs.compiler import WARNINGS, compiled

Document = dict[str, Any]
SOURCE = Path(__file__).parent / "programs" / "reach.c"
KERNELS = str(simgpu.KERNELS_PTX)
SOURCES = f"{build_native.ROOT}:{build_native.SOURCES}"
NATIVE = "from tests.simgpu.device import Device, allocate; device = Device.open(); allocate(8 << 20); device.spin(0.2)"


@pytest.fixture(autouse=True)
def _scheduler_ends(run_dir: RunDir) -> Iterator[None]:
    """The one that doctor starts."""
    yield
    if run_dir.pid_file.exists():
        os.kill(int(run_dir.pid_file.read_text()), signal.SIGTERM)
        poll_until(lambda: not run_dir.client_socket.exists(), "the scheduler has ended")


@pytest.fixture
def reach(tmp_path: Path, tool: Callable[[str], str]) -> Callable[..., str]:
    """Compiles reach.c."""

    def compile_one(compiler: str = "gcc", *flags: str) -> str:
        program = tmp_path / "reach"
        include = f"-I{build_native.SOURCES / 'nvshare' / 'cuda'}"
        command = [tool(compiler), *WARNINGS, "-std=gnu11", include, *flags, SOURCE, "-o", program, "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
        return str(program)

    return compile_one


@pytest.fixture
def doctor(run_dir: RunDir, tmp_path: Path, libraries: Libraries) -> Callable[..., Document]:
    """Runs doctor on simulated GPUs; what it says of a command."""

    def examine(*command: str, code: int = 0, **more: str) -> Document:
        report = tmp_path / "report.json"
        variables = simgpu.environment(tmp_path / "gpus", "2x1GiB/1MiB") | more
        done = ctl(run_dir, "doctor", "-o", "json", "--output-file", str(report), "--", *command, **variables)
        assert done.returncode == code, done.stderr
        document: Document = json.loads(report.read_text())
        return document

    return examine


def subjects(document: Document, level: str = "problem") -> set[str]:
    """What was found of a level."""
    return {finding["subject"] for finding in document["findings"] if finding["level"] == level}


def users(document: Document) -> list[Document]:
    """Processes that used a GPU."""
    return [process for process in document["processes"] if process["uses_gpu"]]


def functions(process: Document) -> dict[str, tuple[str, list[str]]]:
    """Name to treatment and routes."""
    return {use["name"]: (use["treatment"], use["routes"]) for use in process["functions"]}


def test_linked_program(doctor: Callable[..., Document], libraries: Libraries, tmp_path: Path) -> None:
    """A program of threads, graphs and a forked child is shared; each of both took its turn."""
    program = compiled("work", build_native.TARGETS[platform.machine()], libraries.cuda, tmp_path)
    document = doctor(str(program), KERNELS, "2", "3")
    assert (document["shared_safely"], document["exit_code"]) == ("yes", 0)
    assert len(users(document)) == 2
    for process in users(document):
        (device,) = process["devices"]
        assert device["turns"] >= 1
        assert device["submissions_at_least"] > 0
        assert (device["backend"], device["not_swappable_bytes"]) == ("swap", 0)
        assert device["swappable_bytes"] > 0
        found = functions(process)
        assert found["cuLaunchKernel"] == ("gated", ["linked"])
        assert found["cuMemAlloc_v2"] == ("counted", ["linked"])
        assert found["cuStreamBeginCapture_v2"] == ("followed", ["linked"])
        assert found["cuModuleLoadData"] == ("passed on purpose", ["linked"])


@pytest.mark.parametrize(("name", "arguments"), [("contexts", ("3", "20")), ("swaps", ("2", "20", "1"))])
def test_threads(
    doctor: Callable[..., Document], libraries: Libraries, tmp_path: Path, name: str, arguments: tuple[str, ...]
) -> None:
    """Programs of many threads, which make and end contexts or move memory about, are shared."""
    program = compiled(name, build_native.TARGETS[platform.machine()], libraries.cuda, tmp_path)
    document = doctor(str(program), *arguments)
    assert (document["shared_safely"], document["findings"]) == ("yes", [])
    assert len(users(document)) == 1


@pytest.mark.parametrize(("how", "route"), [("dlsym", "dlsym"), ("asked", "cuGetProcAddress")])
def test_ways_that_lead_to_the_hooks(
    doctor: Callable[..., Document], reach: Callable[..., str], how: str, route: str
) -> None:
    """What a program looks up by name is gated, by whichever of both routes."""
    document = doctor(reach(), how, KERNELS)
    assert document["shared_safely"] == "yes"
    (process,) = users(document)
    assert functions(process)["cuLaunchKernel"] == ("gated", [route])


def test_functions_without_names(doctor: Callable[..., Document], reach: Callable[..., str]) -> None:
    """Who launches by a private table of the driver's escapes, though all else of it is seen."""
    document = doctor(reach(), "table", KERNELS)
    assert document["shared_safely"] == "no"
    assert subjects(document) == {"not gated"}
    treatments = {use["treatment"] for use in users(document)[0]["functions"] if use["class"] == "RESOLVE"}
    assert treatments == {"followed", "not gated"}


@pytest.mark.parametrize("how", ["parse", "context"])
def test_own_look_up(doctor: Callable[..., Document], reach: Callable[..., str], how: str) -> None:
    """Who reads the driver's symbol table by itself has a context that no hook has seen."""
    document = doctor(reach(), how, KERNELS)
    assert (document["shared_safely"], subjects(document)) == ("no", {"escaped"})


def test_another_namespace(doctor: Callable[..., Document], reach: Callable[..., str]) -> None:
    """A driver that was opened by dlmopen is said."""
    document = doctor(reach(), "dlmopen", KERNELS)
    assert document["shared_safely"] == "no"
    assert "dlmopen" in subjects(document)


@pytest.mark.parametrize("flags", [["-static"], ["-static-pie"]], ids=["static", "static-pie"])
def test_static_program(doctor: Callable[..., Document], reach: Callable[..., str], flags: list[str]) -> None:
    """A static program opens the driver alone, and doctor says that it is static."""
    document = doctor(reach("gcc", *flags), "open", KERNELS)
    assert (document["shared_safely"], subjects(document)) == ("no", {"escaped"})
    assert "statically linked" in document["findings"][0]["what"]
    assert users(document)[0]["static"]


def test_musl(doctor: Callable[..., Document], reach: Callable[..., str]) -> None:
    """A program of musl's, which can't load the driver either, is named as that."""
    document = doctor(reach("musl-gcc"), "open", KERNELS, code=1)
    assert document["shared_safely"] == "unused"
    assert "it is linked with musl" in " ".join(finding["what"] for finding in document["findings"])


def test_child_without_preload(doctor: Callable[..., Document], reach: Callable[..., str]) -> None:
    """A child whose environment was emptied escapes, and its parent does not hide that."""
    keeps = [f"{name}=${name}" for name in ("LD_LIBRARY_PATH", paths.SIMGPU_DIR)]
    document = doctor("sh", "-c", f'env -i {" ".join(keeps)} "$@"; exit 5', "sh", reach(), "dlsym", KERNELS, code=5)
    assert (document["shared_safely"], subjects(document)) == ("no", {"escaped"})
    assert "LD_PRELOAD was taken out of its environment" in document["findings"][0]["what"]


EXECUTES = "import os, sys; os.environ.clear(); os.environ.update(dict(a.split('=', 1) for a in sys.argv[4:])); "
EXECUTES += "os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"


def test_process_that_forgets(doctor: Callable[..., Document], tmp_path: Path) -> None:
    """A process that executes its own program once more, with an empty environment, is another one from then on."""
    keeps = [f"{name}={value}" for name, value in simgpu.environment(tmp_path / "gpus").items()]
    code = NATIVE + "; device.spin(1.5)"
    document = doctor(sys.executable, "-c", EXECUTES, code, "-", "-", *keeps, f"PYTHONPATH={SOURCES}")
    assert (document["shared_safely"], subjects(document)) == ("no", {"escaped"})
    assert "LD_PRELOAD was taken out of its environment" in document["findings"][0]["what"]


def test_process_that_goes_on_as_another_program(doctor: Callable[..., Document]) -> None:
    """What a process did with the GPU is not lost when it executes a program that uses none."""
    code = NATIVE + "; device.spin(0.5); import os; os.execv('/bin/sleep', ['sleep', '0.5'])"
    document = doctor(sys.executable, "-c", code, PYTHONPATH=SOURCES)
    assert (document["shared_safely"], subjects(document)) == ("yes", set())
    (user,) = users(document)
    assert len(user["devices"]) == 1
    assert user["command"].startswith(sys.executable)


def test_orphan(doctor: Callable[..., Document], reach: Callable[..., str]) -> None:
    """A process whose parent ended before it belongs to the program all the same."""
    keeps = [f"{name}=${name}" for name in ("LD_LIBRARY_PATH", paths.SIMGPU_DIR)]
    # The second one lives while the command ends, however long that takes.
    script = f'(env -i {" ".join(keeps)} sh -c \'"$@"; "$@"\' sh "$@" &); sleep 1.2'
    document = doctor("sh", "-c", script, "sh", reach(), "dlsym", KERNELS)
    assert (document["shared_safely"], subjects(document)) == ("no", {"escaped"})
    assert document["processes_left"] >= 1


def test_no_gpu(doctor: Callable[..., Document]) -> None:
    """A program that uses no GPU is told from one that is shared."""
    assert doctor("true")["shared_safely"] == "unused"


def test_driver_that_is_only_opened(doctor: Callable[..., Document], reach: Callable[..., str]) -> None:
    """Whoever opens the driver, with the library, and calls nothing, used no GPU."""
    assert doctor(reach(), "open", KERNELS)["shared_safely"] == "unused"


def test_nobody_to_ask_for_turns(doctor: Callable[..., Document], reach: Callable[..., str], tmp_path: Path) -> None:
    """A program that runs although there is no scheduler for it is not shared."""
    run = ["env", f"{paths.RUN_DIR}={tmp_path}", f"{paths.ON_MISSING}=run", reach(), "dlsym", KERNELS]
    document = doctor(*run)
    assert (document["shared_safely"], subjects(document)) == ("no", {"no scheduler"})


CRASH = (
    "import os, signal, sys; from tests.simgpu.device import Device, allocate; "
    "device = Device.open(); allocate(8 << 20); device.spin(0.2); os.kill(os.getpid(), signal.SIGKILL)"
)


def test_killed_program(doctor: Callable[..., Document]) -> None:
    """What a program did is known although it was killed."""
    document = doctor(sys.executable, "-c", CRASH, code=137, PYTHONPATH=SOURCES)
    assert (document["shared_safely"], document["signal"]) == ("yes", 9)
    (process,) = users(document)
    assert process["devices"][0]["swappable_bytes"] >= 8 << 20
    assert functions(process)["cuMemAlloc_v2"] == ("counted", ["cuGetProcAddress"])


def test_memory_that_stays(doctor: Callable[..., Document]) -> None:
    """Bytes that can't be swapped are counted, with the reason."""
    document = doctor(sys.executable, "-c", NATIVE, PYTHONPATH=SOURCES, **{paths.MEMORY: "native"})
    (device,) = users(document)[0]["devices"]
    assert document["shared_safely"] == "yes"
    assert (device["backend"], device["swappable_bytes"]) == ("native", 0)
    assert device["not_swappable"] == {"other_bytes": 8 << 20}


def test_gang(doctor: Callable[..., Document]) -> None:
    """What ties a program to others is said."""
    document = doctor(sys.executable, "-c", NATIVE, PYTHONPATH=SOURCES, **{paths.GANG: "ours"})
    (device,) = users(document)[0]["devices"]
    assert device["ties"] == ["name"]
    assert "gang" in subjects(document, "note")


DEEP = "import ctypes, os; ctypes.CDLL('libm.so.6', mode=os.RTLD_NOW | os.RTLD_DEEPBIND); " + NATIVE


def test_deep_binding(doctor: Callable[..., Document]) -> None:
    """What is opened with RTLD_DEEPBIND is said, and does not escape."""
    document = doctor(sys.executable, "-c", DEEP, PYTHONPATH=SOURCES)
    assert document["shared_safely"] == "yes"
    assert users(document)[0]["deepbind"]
    assert "RTLD_DEEPBIND" in subjects(document, "ok")
