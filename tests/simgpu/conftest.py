"""Fixtures for the simulated GPU: fresh processes that use it, in Python with NVIDIA's bindings and in C."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import build_native
from tests.conftest import Libraries

ROOT = build_native.ROOT
HERE = Path(__file__).parent
KERNELS = build_native.SOURCES / "nvshare" / "simgpu" / "kernels.ptx"


@pytest.fixture
def state_dir(environment: dict[str, str]) -> Path:
    """The folder of the test's simulated devices."""
    return Path(environment["NVSHARE_SIMGPU_DIR"])


class Clients:
    """Processes that use the test's simulated devices."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
        self._started: list[subprocess.Popen[str]] = []

    def run(self, code: str, **variables: str) -> str:
        """Runs Python code to its end and returns what it printed."""
        return self._finish([sys.executable, "-c", code], variables)

    def run_program(self, *command: str | Path, **variables: str) -> str:
        """Runs a program to its end and returns what it printed."""
        return self._finish([str(part) for part in command], variables)

    def _finish(self, command: list[str], variables: dict[str, str]) -> str:
        done = subprocess.run(command, env=self._environment | variables, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, code: str, descriptors: Sequence[int] = ()) -> subprocess.Popen[str]:
        """Starts Python code that keeps these descriptors, and waits until it has printed its first line."""
        command = [sys.executable, "-c", code]
        process = subprocess.Popen(
            command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=descriptors,
        )
        self._started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline(), "the process ended before it said anything"
        return process

    def fail(self, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs Python code that is to fail."""
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=self._environment | variables, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        return done

    def end(self) -> None:
        """Kills what still runs."""
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
def clients(environment: dict[str, str]) -> Iterator[Clients]:
    """Starts processes that use the test's simulated devices; all end with the test."""
    clients = Clients(environment)
    yield clients
    clients.end()


@pytest.fixture
def compile_with_driver(
    libraries: Libraries, tmp_path: Path, tool: Callable[[str], str]
) -> Callable[[list[Path], str], Path]:
    """Compiles C files into a program that is linked with the simulated driver."""

    def compile_all(sources: list[Path], name: str) -> Path:
        program = tmp_path / name
        flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", f"-I{build_native.SOURCES}"]
        subprocess.run([tool("gcc"), *flags, *sources, libraries.cuda, "-o", program], check=True)
        return program

    return compile_all
