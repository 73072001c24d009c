"""What pyproject.toml says that the package needs is what it imports."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.layout.tree import PACKAGE, ROOT, imports, tracked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What kubectl runs on a workstation; nothing else may need its extra.
KUBECTL = str(PACKAGE / "ctl" / "kubectl")


def canonical(name: str) -> str:
    """A distribution's name as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[str]) -> set[str]:
    """The names of requirements."""
    return {canonical(re.match(r"[\w.-]+", text)[0]) for text in requirements}  # type: ignore[index]


def used(files: list[Path]) -> set[str]:
    """The distributions that files import from."""
    found = {imported for path in files for imported in imports(path)}
    foreign = {imported.split(".")[0] for imported in found} - sys.stdlib_module_names - {"nvshare"}
    installed = packages_distributions()
    # `google` belongs to many distributions; the package means protobuf's.
    return {"protobuf" if module == "google" else canonical(installed[module][0]) for module in foreign}


def is_kubectl(path: Path) -> bool:
    """Whether a file belongs to `kubectl nvshare`."""
    return str(path).startswith(KUBECTL)


def python_files() -> list[Path]:
    """The package's."""
    return [path for path in tracked() if path.is_relative_to(PACKAGE) and path.suffix == ".py"]


def test_dependencies_are_the_imports() -> None:
    """Nothing is installed that is not used, and nothing is used that only happens to be installed."""
    extra = declared(PROJECT["optional-dependencies"]["kubectl"])
    assert used(python_files()) - extra == declared(PROJECT["dependencies"])


def test_extra_is_what_kubectl_needs() -> None:
    """The extra is what `kubectl nvshare` imports beside the dependencies, and nothing else imports it."""
    extra = declared(PROJECT["optional-dependencies"]["kubectl"])
    assert used([path for path in python_files() if is_kubectl(path)]) - declared(PROJECT["dependencies"]) == extra
    assert not used([path for path in python_files() if not is_kubectl(path)]) & extra
