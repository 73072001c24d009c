"""What pyproject.toml says that the package needs is what it imports."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions

from tests.layout.tree import PACKAGE, ROOT, imports, tracked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def canonical(name: str) -> str:
    """A distribution's name as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_dependencies_are_the_imports() -> None:
    """Nothing is installed that is not used, and nothing is used that only happens to be installed."""
    declared = {canonical(re.match(r"[\w.-]+", text)[0]) for text in PROJECT["dependencies"]}  # type: ignore[index]
    modules = {
        imported.split(".")[0]
        for path in tracked()
        if path.is_relative_to(PACKAGE) and path.suffix == ".py"
        for imported in imports(path)
    }
    foreign = modules - sys.stdlib_module_names - {"nvshare"}
    installed = packages_distributions()
    # `google` belongs to many distributions; the package means protobuf's.
    used = {"protobuf" if module == "google" else canonical(installed[module][0]) for module in foreign}
    assert used == declared
