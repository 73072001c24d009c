"""The build of one machine's wheel: Python that runs anywhere, and the machine's libraries (build_native.py).

Another machine than this one: ``pip wheel --config-settings=--build-option=--plat-name=manylinux_2_17_aarch64 .``
"""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.errors import OptionError

sys.path.insert(0, str(Path(__file__).parent))

import build_native

TARGETS = {f"manylinux_{build_native.GLIBC.replace('.', '_')}_{name}": name for name in build_native.MACHINES}


class BuildWheel(bdist_wheel):
    """Decides for which machine everything is built: the one that ``--plat-name`` names, by default this one."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.plat_name = next((tag for tag, name in TARGETS.items() if name == platform.machine()), "")

    def finalize_options(self) -> None:
        if self.plat_name not in TARGETS:
            raise OptionError(f"--plat-name is one of {', '.join(TARGETS)}, not {self.plat_name!r}")
        self.distribution.get_command_obj("build").build_base = f"build/{self.plat_name}"
        super().finalize_options()

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", self.plat_name

    def run(self) -> None:
        # What an earlier build left there would be packed too.
        shutil.rmtree(self.get_finalized_command("build").build_lib, ignore_errors=True)
        super().run()

    def target(self) -> build_native.Target:
        """How the machine's libraries are compiled."""
        return build_native.TARGETS[TARGETS[self.plat_name]]


class BuildPackage(build_py):
    """Compiles the libraries into the package.

    Not for an editable installation: there ``make libs`` compiles what changed, again and again.
    """

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for library in self._compiled():
                place = Path(self.build_lib) / library.relative_to(build_native.SOURCES)
                self.mkpath(str(place.parent))
                self.copy_file(str(library), str(place))

    def _compiled(self) -> list[Path]:
        try:
            return build_native.build(self.get_finalized_command("bdist_wheel").target())
        except subprocess.CalledProcessError as error:
            sys.exit(f"setup.py: a C compiler failed with exit status {error.returncode}; see its message above")


setup(
    cmdclass={"bdist_wheel": BuildWheel, "build_py": BuildPackage},
)
