"""What a unit is when its installation fails half way: what it was before."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from nvshare.ctl.errors import CommandError
from nvshare.ctl.service import systemd

PROGRAM = Path("/opt/nvshare/bin/nvshare-scheduler")


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The unit's file; systemctl does all that it is told."""
    monkeypatch.setattr(systemd, "UNIT_FILE", tmp_path / "system" / "nvshare-scheduler.service")
    monkeypatch.setattr(systemd, "_run", lambda *words: subprocess.CompletedProcess(words, 0, "", ""))
    return systemd.UNIT_FILE


def test_nobody_makes_way_for_a_unit_that_can_not_be_written(unit: Path) -> None:
    """The scheduler before it goes on: programs would wait for one that never comes."""
    unit.parent.write_text("a file")
    asked: list[str] = []
    with pytest.raises(CommandError, match=f"cannot write {unit}: .*; it is as it was"):
        systemd.install(PROGRAM, lambda: asked.append("make way"))
    assert asked == []


def test_a_place_that_is_taken(unit: Path) -> None:
    """Nothing is left beside it."""
    (unit / "override").mkdir(parents=True)
    with pytest.raises(CommandError, match="Is a directory; it is as it was"):
        systemd.install(PROGRAM, lambda: None)
    assert list(unit.parent.iterdir()) == [unit]


def test_a_scheduler_that_does_not_make_way(unit: Path) -> None:
    """The unit of before stays, and nothing is left beside it."""
    systemd.install(Path("/opt/former/nvshare-scheduler"), lambda: None)
    before = unit.read_text()

    def refuse() -> None:
        raise CommandError("it has not ended")

    with pytest.raises(CommandError, match="it has not ended"):
        systemd.install(PROGRAM, refuse)
    assert unit.read_text() == before
    assert list(unit.parent.iterdir()) == [unit]


def test_everybody_may_read_it(unit: Path) -> None:
    """As systemd wants it, whatever root's umask is."""
    before = os.umask(0o077)
    try:
        systemd.install(PROGRAM, lambda: None)
    finally:
        os.umask(before)
    assert unit.stat().st_mode & 0o777 == 0o644


def test_systemctl_that_hangs(unit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is not known, which is said."""

    def hang(*words: str) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(words, 120)

    monkeypatch.setattr(systemd, "_run", hang)
    assert systemd.state() == "not known (systemctl does not answer within 120 s)"
    assert not systemd.is_active()


def test_what_keeps_the_swap_folder_from_it_is_said() -> None:
    """It may write to its run directory alone; whoever adds --swap-dir to its options reads there what that takes."""
    head, _, settings = systemd.unit(PROGRAM).partition("[Unit]")
    assert "ProtectSystem=strict" in settings
    assert re.search("--swap-dir.*ReadWritePaths=", head)
