"""Files that people name: what may have no end is not read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.deviceplugin.host.install import InstallError, read_library
from nvshare.deviceplugin.settings.choice import Choice
from nvshare.deviceplugin.settings.sources import ConfigurationError, load
from nvshare.regular_files import read_regular


def test_content(tmp_path: Path) -> None:
    """All of a file that is no larger, also by a link, as a ConfigMap's files are."""
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"12345678")
    link.symlink_to(file)
    assert read_regular(file, 8) == read_regular(link, 9) == b"12345678"
    with pytest.raises(OSError, match="Larger than 7 bytes"):
        read_regular(file, 7)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 8 << 30)


KINDS = pytest.mark.parametrize(
    ("make", "why"),
    [
        (fifo, "Not a regular file"),
        (device, "Not a regular file"),
        (folder, "Not a regular file"),
        (huge, r"Larger than \d+ bytes"),
    ],
)


@KINDS
def test_settings(tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    """One line, at once, with the option that helps; as one of several configurations there is nothing in it."""
    file = tmp_path / "config"
    make(file)
    with pytest.raises(ConfigurationError, match=rf"^{file}: {why}: name a file with --config that can be read$"):
        load({}, {}, file)
    assert Choice(tmp_path, "config", tmp_path / "none").look().content is None


@KINDS
def test_a_library(tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    """The same, by another option."""
    make(tmp_path / "library")
    with pytest.raises(InstallError, match=rf"library: {why}: name the library with --source"):
        read_library(tmp_path / "library", "0.3.0")
