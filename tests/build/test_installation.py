"""``pip install .`` from a clean clone gives working commands, with the libraries inside."""

from __future__ import annotations

import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import build_native
from tests.build import elf
from tests.build.sources import clean_environment, copy_tracked

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600), pytest.mark.xdist_group("installation")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that pip builds, isolated from this environment, of exactly what git would carry."""
    clone, output = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("wheel")
    copy_tracked(clone)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(output), str(clone)]
    subprocess.run(command, check=True, env=clean_environment())
    (built,) = output.glob("nvshare-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment in which only nvshare was installed."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", str(wheel)]
    subprocess.run(command, check=True, env=clean_environment())
    return folder / "bin"


def test_wheel_carries_its_machine(wheel: Path) -> None:
    """The wheel has the libraries of this machine, none of another, and no source."""
    names = set(zipfile.ZipFile(wheel).namelist())
    machine = platform.machine()
    expected = {f"nvshare/{library.package}/lib/{machine}/{library.file_name}" for library in build_native.LIBRARIES}
    assert {name for name in names if "/lib/" in name} == expected
    assert not {name for name in names if name.endswith((".c", ".S", ".h", ".o"))}


def test_commands_work(installed: Path, tmp_path: Path) -> None:
    """The commands start, and library-path names a library inside the environment."""
    environment = clean_environment()
    for command in ("nvshare-scheduler", "nvshare-ctl", "nvsharectl", "nvshare-device-plugin"):
        subprocess.run([installed / command, "--help"], check=True, env=environment, cwd=tmp_path, capture_output=True)
    answer = subprocess.run(
        [installed / "nvshare-ctl", "library-path"],
        check=True,
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    library = Path(answer.stdout.strip())
    assert library.is_relative_to(installed.parent)
    assert elf.read(library).soname == "libnvshare.so"


def test_kubectl_says_what_it_needs(installed: Path, tmp_path: Path) -> None:
    """The plugin is there; without its extra it names the extra and fails."""
    command = [installed / "kubectl-nvshare", "status"]
    done = subprocess.run(command, env=clean_environment(), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.endswith("in nvshare's source tree: pip install '.[kubectl]'\n")
