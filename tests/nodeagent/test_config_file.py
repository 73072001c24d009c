"""The file that names the device plugin's settings."""

from __future__ import annotations

import stat
from pathlib import Path

from structlog.testing import CapturingLogger

from nvshare.log import Log
from nvshare.nodeagent.config_file import ConfigFile


def test_it_is_as_the_label_is(tmp_path: Path, log: Log, lines: CapturingLogger) -> None:
    """Everybody may read it; it is written once for each value."""
    path = tmp_path / "node" / "config"
    file = ConfigFile(path, log)
    file.bring_up_to_date("")
    assert not path.parent.exists()
    file.bring_up_to_date("big")
    number = path.stat().st_ino
    file.bring_up_to_date("big")
    assert (path.read_text(), path.stat().st_ino) == ("big\n", number)
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o644, 0o755)
    file.bring_up_to_date("small")
    assert path.read_text() == "small\n"
    file.bring_up_to_date("")
    assert list(path.parent.iterdir()) == []
    assert [call.method_name for call in lines.calls] == ["info"] * 3


def test_what_was_left_half_done(tmp_path: Path, log: Log) -> None:
    """A former agent's unfinished file, or a link in its place, is no obstacle and is not followed."""
    path, other = tmp_path / "config", tmp_path / "other"
    other.write_text("another's")
    path.with_suffix(".new").symlink_to(other)
    ConfigFile(path, log).bring_up_to_date("big")
    assert (path.read_text(), other.read_text()) == ("big\n", "another's")


def test_what_is_no_text(tmp_path: Path, log: Log) -> None:
    """As after a power cut: it is written anew."""
    path = tmp_path / "config"
    path.write_bytes(b"\xff\n")
    ConfigFile(path, log).bring_up_to_date("big")
    assert path.read_text() == "big\n"


def test_it_cannot_be_written(tmp_path: Path, log: Log, lines: CapturingLogger) -> None:
    """One warning, until it can be."""
    blocked = tmp_path / "node"
    blocked.write_text("no folder")
    file = ConfigFile(blocked / "config", log)
    for _ in range(3):
        file.bring_up_to_date("big")
    assert [call.method_name for call in lines.calls] == ["warning"]
    blocked.unlink()
    file.bring_up_to_date("big")
    assert (blocked / "config").read_text() == "big\n"
