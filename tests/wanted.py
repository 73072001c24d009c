"""What tests want of the system: where it is not installed a test is skipped, but fails when CI=true."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def tool(name: str) -> str:
    """The path of a program."""
    return shutil.which(name) or _missing(name)


def folder(path: Path) -> Path:
    """A folder that a package brings."""
    return path if path.is_dir() else _missing(str(path))


def _missing(name: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{name} is not installed, and in CI it must be")
    pytest.skip(f"{name} is not installed")
