"""The build: the C libraries for every machine (build_native.py) and the cffi extension for this one."""

import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))

import build_native


class BuildWithLibraries(build_py):
    """Compiles the libraries into the package before its files are collected.

    Not for an editable installation: there ``make libs`` compiles what changed, again and again.
    """

    def run(self) -> None:
        if not self.editable_mode:
            self._compile()
        super().run()

    def _compile(self) -> None:
        try:
            for machine in build_native.MACHINES:
                build_native.build(build_native.TARGETS[machine])
        except subprocess.CalledProcessError as error:
            sys.exit(f"setup.py: a C compiler failed with exit status {error.returncode}; see its message above")
        self.__dict__.pop("data_files", None)  # collected on demand; the libraries are there only now


setup(
    cmdclass={"build_py": BuildWithLibraries},
    cffi_modules=["src/nvshare/shim/build_core.py:ffibuilder"],
)
