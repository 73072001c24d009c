"""What pyproject.toml says that the package needs is what it imports."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.layout.tree import PACKAGE, ROOT, at, below, imports, nobody, tracked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What kubectl runs on a workstation; nothing else may need its extra.
KUBECTL = below(PACKAGE / "ctl" / "kubectl", ".py")
INSTALLED = packages_distributions()
FILES = tuple(path for path in tracked() if path.suffix == ".py" and path.is_relative_to(PACKAGE))


def canonical(name: str) -> str:
    """A distribution's name as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[str]) -> set[str]:
    """The names of requirements."""
    return {canonical(re.match(r"[\w.-]+", text)[0]) for text in requirements}  # type: ignore[index]


def used(files: Iterable[Path]) -> dict[str, str]:
    """The distributions that files import from, each with a place where."""
    found: dict[str, str] = {}
    for path in files:
        for imported, line in imports(path).items():
            module = imported.split(".")[0]
            if module not in sys.stdlib_module_names and module != "nvshare":
                # `google` belongs to many distributions; the package means protobuf's.
                name = "protobuf" if module == "google" else canonical(INSTALLED[module][0])
                found.setdefault(name, at(path, line))
    return found


DEPENDENCIES = declared(PROJECT["dependencies"])
EXTRA = declared(PROJECT["optional-dependencies"]["kubectl"])


def test_dependencies_are_the_imports() -> None:
    """Nothing is installed that is not used, and nothing is used that only happens to be installed."""
    found = used(FILES)
    undeclared = {name: where for name, where in found.items() if name not in DEPENDENCIES | EXTRA}
    unused = DEPENDENCIES - found.keys()
    nobody(
        [f"{where}: {name} is not declared" for name, where in undeclared.items()]
        + [f"pyproject.toml: nothing imports {name}" for name in sorted(unused)]
    )


def test_extra_is_what_kubectl_needs() -> None:
    """The extra is what `kubectl nvshare` imports beside the dependencies, and nothing else imports it."""
    unused = EXTRA - used(KUBECTL).keys()
    others = used(path for path in FILES if path not in KUBECTL)
    nobody(
        [f"pyproject.toml: kubectl nvshare does not import {name}" for name in sorted(unused)]
        + [f"{where}: only kubectl nvshare may import {name}" for name, where in others.items() if name in EXTRA]
    )
