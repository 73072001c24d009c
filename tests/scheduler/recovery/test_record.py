"""The file that says who holds what."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog

from nvshare.scheduler.recovery import record as record_module
from nvshare.scheduler.recovery.record import Record, Recorded

FIRST = Recorded("GPU-a", 7, 100, 5000, "train.py")
SECOND = Recorded("GPU-b", 8, 101, 5001, "déjà vu")


@pytest.fixture
def lines() -> structlog.testing.CapturingLogger:
    """What was logged."""
    return structlog.testing.CapturingLogger()


def opened(path: Path, lines: structlog.testing.CapturingLogger) -> Record:
    """The record of a scheduler that starts."""
    return Record(path, "holders", structlog.wrap_logger(lines, processors=[]))


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """No file grows beyond what this one has."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_new_one_finds_nobody(tmp_path: Path, lines: structlog.testing.CapturingLogger) -> None:
    """And nobody but its user may read it."""
    assert opened(tmp_path / "holders", lines).found == ()
    assert (tmp_path / "holders").stat().st_mode & 0o777 == 0o600
    assert lines.calls == []


def test_who_was_written_is_found_without_a_clean_end(tmp_path: Path, lines: structlog.testing.CapturingLogger) -> None:
    """Those who released are not; places are used again."""
    record = opened(tmp_path / "holders", lines)
    for holder in (FIRST, SECOND):
        record.add(holder)
    assert opened(tmp_path / "holders", lines).found == (FIRST, SECOND)
    record.erase(FIRST.number)
    record.erase(FIRST.number)
    third = Recorded("GPU-a", 9, 102, 5002, "")
    record.add(third)
    assert set(opened(tmp_path / "holders", lines).found) == {SECOND, third}


def test_the_next_scheduler_goes_on_with_the_file(tmp_path: Path, lines: structlog.testing.CapturingLogger) -> None:
    """What it found keeps its place until it says that it is over."""
    opened(tmp_path / "holders", lines).add(FIRST)
    record = opened(tmp_path / "holders", lines)
    record.add(SECOND)
    assert opened(tmp_path / "holders", lines).found == (FIRST, SECOND)
    record.erase(FIRST.number)
    assert opened(tmp_path / "holders", lines).found == (SECOND,)


def test_it_grows(tmp_path: Path, lines: structlog.testing.CapturingLogger) -> None:
    """Under policy off everybody holds."""
    record = opened(tmp_path / "holders", lines)
    holders = [Recorded("GPU-a", grant, grant, grant, "") for grant in range(1, 3000)]
    for holder in holders:
        record.add(holder)
    assert set(opened(tmp_path / "holders", lines).found) == set(holders)


def test_a_full_disk_stops_nobody(tmp_path: Path, lines: structlog.testing.CapturingLogger) -> None:
    """Room was taken beforehand; when all of it is used, one line says what follows, and no exception comes."""
    path = tmp_path / "holders"
    record = opened(path, lines)
    room = path.stat().st_size // 128 - 1
    with full_disk(path):
        for grant in range(1, room + 4):
            record.add(Recorded("GPU-a", grant, grant, grant, ""))
        assert [call.args[0] if call.args else call.kwargs["event"] for call in lines.calls] == [
            "cannot write to a record: after a crash the next scheduler does not wait for whom it lacks"
        ]
        record.erase(1)
        record.erase(room + 2)
        record.add(Recorded("GPU-a", room + 9, 1, 1, ""))
    assert len(opened(path, lines).found) == room


def test_a_damaged_file_is_said(tmp_path: Path, lines: structlog.testing.CapturingLogger) -> None:
    """Neither a foreign file nor a damaged entry ends the scheduler; whole entries still count."""
    path = tmp_path / "holders"
    path.write_bytes(b"something else" * 100)
    assert opened(path, lines).found == ()
    (said,) = lines.calls
    assert "another version of nvshare wrote it" in str(said)
    record = opened(path, lines)
    record.add(FIRST)
    record.add(SECOND)
    data = bytearray(path.read_bytes())
    data[128 + 10] ^= 1
    path.write_bytes(data)
    assert opened(path, lines).found == (SECOND,)
    assert len(lines.calls) == 2


@pytest.mark.parametrize("name", ["this_boot", "pid_namespace"])
def test_pids_of_another_boot_or_namespace_mean_nothing_here(
    tmp_path: Path,
    lines: structlog.testing.CapturingLogger,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """After a boot nobody holds; from another pid namespace somebody does who can't be seen."""
    opened(tmp_path / "holders", lines).add(FIRST)
    monkeypatch.setattr(record_module, name, {"this_boot": lambda: "another", "pid_namespace": lambda: 1}[name])
    hidden = Recorded(FIRST.device, FIRST.number, 0, 0, FIRST.command)
    assert opened(tmp_path / "holders", lines).found == (() if name == "this_boot" else (hidden,))


def test_a_link_is_not_followed(tmp_path: Path, lines: structlog.testing.CapturingLogger) -> None:
    """Somebody else's file is left alone."""
    (tmp_path / "file").write_text("precious")
    (tmp_path / "holders").symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match="symbolic links"):
        opened(tmp_path / "holders", lines)
    assert (tmp_path / "file").read_text() == "precious"
