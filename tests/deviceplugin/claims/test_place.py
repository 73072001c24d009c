"""Where claims are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvshare.deviceplugin.answers.allocation import Injection
from nvshare.deviceplugin.claims.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place("node", tmp_path, tmp_path / "cdi", tmp_path / "admin.sock", Injection(Path("/lib"), Path("/client")))


def test_whether_there_are_records(place: Place) -> None:
    """None where there is no folder, or an empty one."""
    assert not place.has_records()
    place.records.mkdir(parents=True)
    assert not place.has_records()
    (place.records / "u1.json").touch()
    assert place.has_records()


def test_records_that_can_not_be_read(place: Place) -> None:
    """There may be some: who takes them for none would tell the scheduler that claims are over."""
    place.records.parent.mkdir(parents=True)
    place.records.touch()
    assert place.has_records()
