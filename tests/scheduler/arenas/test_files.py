"""The files of programs that sleep, and their folder."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from structlog.testing import CapturingLogger

from nvshare.scheduler.arenas import files

GIB = 1 << 30


@pytest.fixture
def logger() -> CapturingLogger:
    """What is logged."""
    return CapturingLogger()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[int]:
    """A file there."""
    descriptor = files.make(tmp_path)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def no_tmpfile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that makes no files without a name."""
    really = os.open

    def refuse(path: object, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return really(path, flags, mode)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "open", refuse)


def size_of(folder: Path, size_bytes: int | None, logger: CapturingLogger) -> int:
    """What is for files there."""
    return files.bytes_in(folder, size_bytes, structlog.wrap_logger(logger, processors=[]))


def check(descriptor: int, folder: Path) -> None:
    """Nobody finds the file, or may read it; it can be read and written here, and not by a program started here."""
    status = os.fstat(descriptor)
    assert (stat.S_IMODE(status.st_mode), status.st_size, status.st_nlink) == (0o600, 0, 0)
    assert not list(folder.iterdir())
    assert os.write(descriptor, b"") == 0
    assert not os.get_inheritable(descriptor)


def test_a_file(made: int, tmp_path: Path) -> None:
    """It has no name and can't be given one, and its data goes to the disk at once."""
    check(made, tmp_path)
    assert fcntl.fcntl(made, fcntl.F_GETFL) & os.O_DIRECT
    own = os.open("/proc/self/fd", os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        os.link(str(made), tmp_path / "name", src_dir_fd=own)
    os.close(own)


def test_without_unnamed_files(no_tmpfile: None, tmp_path: Path) -> None:
    """It has a name for a moment, which nobody can guess."""
    descriptor = files.make(tmp_path)
    check(descriptor, tmp_path)
    os.close(descriptor)


def test_without_direct_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The cache keeps it then."""

    def refuse(_descriptor: int, command: int, _flags: int = 0) -> int:
        if command == fcntl.F_SETFL:
            raise OSError(errno.EINVAL, "Invalid argument")
        return 0

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    descriptor = files.make(tmp_path)
    check(descriptor, tmp_path)
    os.close(descriptor)


def test_how_much(tmp_path: Path, logger: CapturingLogger) -> None:
    """What was asked for, be it used at the moment; else nine tenths of what is free."""
    room = os.statvfs(tmp_path)
    there_bytes, free_bytes = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    assert size_of(tmp_path, there_bytes, logger) == there_bytes
    assert abs(size_of(tmp_path, None, logger) - 0.9 * free_bytes) < 0.05 * free_bytes
    assert not list(tmp_path.iterdir())


def test_more_than_the_disk_has(tmp_path: Path, logger: CapturingLogger) -> None:
    """One of the two is a mistake."""
    with pytest.raises(ValueError, match=r"--swap-size 1048576.0 GiB is more than the file system of .* lower it"):
        size_of(tmp_path, 1 << 50, logger)


def test_a_folder_that_is_none(tmp_path: Path, logger: CapturingLogger) -> None:
    """It is named, with what to do."""
    with pytest.raises(ValueError, match=f"--swap-dir {tmp_path}/none does not exist: make a folder on a local disk"):
        size_of(tmp_path / "none", None, logger)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=f"--swap-dir {tmp_path}/file is no folder"):
        size_of(tmp_path / "file", None, logger)


def test_a_folder_that_takes_no_files(logger: CapturingLogger) -> None:
    """Its file system says why."""
    with pytest.raises(ValueError, match=r"no file can be made in --swap-dir /proc/self: .*the scheduler may write"):
        size_of(Path("/proc/self"), None, logger)
    with pytest.raises(ValueError, match=r"no file can be made in --swap-dir /x{300}: File name too long"):
        size_of(Path("/" + "x" * 300), None, logger)


def test_a_full_disk(tmp_path: Path, logger: CapturingLogger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a size there is nothing to share."""
    values = list(os.statvfs(tmp_path))
    values[4] = 0
    monkeypatch.setattr(os, "statvfs", lambda _folder: os.statvfs_result(values))
    with pytest.raises(ValueError, match="is full"):
        size_of(tmp_path, None, logger)
    assert size_of(tmp_path, GIB, logger) == GIB


def test_memory(logger: CapturingLogger) -> None:
    """It is used, and a line says that it is not what was meant."""
    assert size_of(Path("/dev/shm"), GIB, logger) == GIB
    assert [call.kwargs["event"] for call in logger.calls] == ["--swap-dir is in memory, which it is to spare"]
