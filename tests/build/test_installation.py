"""``pip install .`` from a clean clone gives working commands, with the libraries inside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import build_native
from tests.build import elf
from tests.layout.tree import ROOT, tracked

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("installation")]


def clean_environment() -> dict[str, str]:
    """An environment that leads to no other copy of nvshare."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that pip builds, isolated from this environment, of exactly what git would carry."""
    clone, output = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("wheel")
    for path in tracked():
        copy = clone / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
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


def test_wheel_carries_every_machine(wheel: Path) -> None:
    """One wheel has the libraries of all machines, the extension of its own, and no C source."""
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        f"nvshare/{library.package}/lib/{machine}/{library.file_name}"
        for library in build_native.LIBRARIES
        for machine in build_native.MACHINES
    }
    assert expected <= names
    assert any(name.startswith("nvshare/shim/_core.") for name in names)
    assert not {name for name in names if name.endswith((".c", ".S", ".o"))}
    assert "none-any" not in wheel.name


def test_commands_work(installed: Path, tmp_path: Path) -> None:
    """The commands start, and library-path names a library inside the environment."""
    environment = clean_environment()
    for command in ("nvshare-scheduler", "nvshare-ctl", "nvshare-device-plugin"):
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
