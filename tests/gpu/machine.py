"""What there is to run programs with: GPUs, packages, and which build of the library."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nvshare import shim
from nvshare.version import version
from tests.gpu.rows import Row

LOOK_SECONDS = 60
LOOK = """
import importlib.metadata, importlib.util, json, sys
found = {}
for name in json.loads(sys.argv[1]):
    try:
        there = importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        there = False
    distributions = importlib.metadata.packages_distributions().get(name.split('.')[0], ())
    for distribution in (name, name.replace('.', '-'), *distributions):
        try:
            found[name] = importlib.metadata.version(distribution)
            break
        except importlib.metadata.PackageNotFoundError:
            pass
    if there:
        found.setdefault(name, '')
print(json.dumps({'version': sys.version.split()[0], 'found': found}))
"""


DRIVER = """
import json, pynvml
pynvml.nvmlInit()
print(json.dumps(pynvml.nvmlSystemGetDriverVersion()))
"""


class MachineError(Exception):
    """There is nothing to run programs on, or with."""


@dataclass(frozen=True, slots=True)
class Machine:
    """As it was found."""

    gpus: int
    words: str
    """GPU, driver, Python and library."""
    versions: Mapping[str, str]
    """Of what rows need and what is there; empty for what has none."""

    def lacks(self, row: Row) -> str:
        """Why a row can't be tried; empty: it can."""
        missing = [name for name in row.needs if name not in self.versions]
        if missing:
            return "not installed: " + ", ".join(missing)
        if row.ranks > self.gpus:
            return "needs two GPUs" if row.ranks == 2 else f"needs {row.ranks} GPUs"
        return ""

    def versions_for(self, row: Row) -> dict[str, str]:
        """Of what a row needs."""
        return {name: self.versions[name] for name in row.needs if self.versions.get(name)}


def look(python: str, rows: Iterable[Row], environment: Mapping[str, str]) -> Machine:
    """Looks, in processes of their own: this one uses no GPU. MachineError."""
    needs = sorted({name for row in rows for name in row.needs})
    try:
        packages = _said([python, "-c", LOOK, json.dumps(needs)], environment)
        devices = _said([sys.executable, "-m", "nvshare.demo.device_list"], environment)
        driver = _said([sys.executable, "-c", DRIVER], environment)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise MachineError(str(error)) from error
    if not devices:
        raise MachineError("the CUDA driver shows no GPU")
    found = dict(packages["found"])
    if shutil.which("nvcc"):
        found["nvcc"] = ""
    build = hashlib.sha256(shim.library_path().read_bytes()).hexdigest()[:12]
    words = (
        f"{devices[0]['name']}, driver {driver}, Python {packages['version']}, nvshare {version()} (library {build})"
    )
    return Machine(len(devices), words, found)


def _said(command: list[str], environment: Mapping[str, str]) -> Any:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LOOK_SECONDS)
    if done.returncode != 0:
        raise MachineError((done.stderr.strip().splitlines() or [f"{command[0]} failed"])[-1])
    return json.loads(done.stdout.splitlines()[-1])
