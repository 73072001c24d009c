"""One wheel for each machine, built on this one, serves every Python from 3.11."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import build_native
from tests.build import elf
from tests.build.sources import clean_environment, copy_tracked

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600), pytest.mark.xdist_group("wheels")]

GLIBC = tuple(int(part) for part in build_native.GLIBC.split("."))
MACHINES = pytest.mark.parametrize("machine", build_native.MACHINES)
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
PYENV = Path.home() / ".pyenv" / "versions"
PROGRAM = "from nvshare.protocol import wire; print(wire.decode(wire.encode(wire.LockOk(7))))"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each machine; the packages that the build needs are those of this environment."""
    clone, output = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("wheels")
    copy_tracked(clone)
    return {machine: build(clone, output, machine) for machine in build_native.MACHINES}


def build(clone: Path, output: Path, machine: str) -> Path:
    """Builds one, as `make wheels` does."""
    option = f"--config-settings=--build-option=--plat-name=manylinux_2_17_{machine}"
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", option]
    subprocess.run([*command, "--wheel-dir", str(output), str(clone)], check=True, env=clean_environment())
    (built,) = output.glob(f"*{machine}.whl")
    return built


def unpacked(wheel: Path, folder: Path) -> Path:
    """The wheel's content."""
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def is_made(command: list[str]) -> bool:
    """Whether the command exists and succeeds."""
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True).returncode == 0


@MACHINES
def test_tag(wheels: dict[str, Path], machine: str) -> None:
    """The name promises the machine, glibc 2.17 and any Python."""
    assert wheels[machine].name.endswith(f"-py3-none-manylinux_2_17_{machine}.whl")


@MACHINES
def test_binaries_keep_the_promise(wheels: dict[str, Path], machine: str, tmp_path: Path) -> None:
    """Whatever is compiled is for the wheel's machine and needs no symbol that came after glibc 2.17."""
    binaries = [path for path in unpacked(wheels[machine], tmp_path).rglob("*.so*") if path.is_file()]
    assert len(binaries) == len(build_native.LIBRARIES)
    for path in binaries:
        read = elf.read(path)
        assert read.machine == machine, path
        assert read.glibc_versions or read.needed == {"libcuda.so.1"}, path
        assert max(read.glibc_versions, default=()) <= GLIBC, path


@MACHINES
def test_auditor_agrees(wheels: dict[str, Path], machine: str) -> None:
    """auditwheel gives the wheel the tag that it has."""
    tool = Path(sys.executable).parent / "auditwheel"
    shown = subprocess.run([tool, "show", "--json", wheels[machine]], check=True, capture_output=True, text=True)
    found = json.loads(shown.stdout)
    assert found["overall_tag"] == f"manylinux_2_17_{machine}"


@pytest.mark.parametrize("python", PYTHONS)
def test_serves_every_python(wheels: dict[str, Path], python: str, tmp_path: Path) -> None:
    """This machine's wheel works in each Python that is installed here; nothing is compiled for it."""
    # A command of pyenv's in PATH may lead to a version that is not selected.
    places = [python, *(str(path) for path in PYENV.glob(f"*/bin/{python}"))]
    if not any(is_made([place, "-m", "venv", str(tmp_path)]) for place in places):
        pytest.skip(f"{python} is not installed")
    inside, wheel = tmp_path / "bin" / "python", wheels[platform.machine()]
    install = [str(inside), "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
    subprocess.run([*install, "cffi"], check=True, env=clean_environment())
    subprocess.run([*install, "--no-deps", str(wheel)], check=True, env=clean_environment())
    done = subprocess.run(
        [inside, "-c", PROGRAM], check=True, env=clean_environment(), cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "LockOk(grant=7)\n"
