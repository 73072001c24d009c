"""What writers that were killed leave behind, and what those have that still write."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import cdi
from nvshare.deviceplugin.host.cdi_file import CdiFile
from nvshare.deviceplugin.host.install import Library, install
from nvshare.deviceplugin.host.whole_files import remove_leftovers, write_whole

OLDER, NEWER = Library("0.2.0", b"\x7fELF older"), Library("0.3.0", b"\x7fELF newer")
WRITER = """
    import os, sys
    from pathlib import Path
    from nvshare.deviceplugin.host.whole_files import write_whole

    def halt(_descriptor):
        print("half", flush=True)
        sys.stdin.readline()

    os.fsync = halt
    write_whole(Path(sys.argv[1]), b"whole", 0o644)
"""


def half_written(target: Path) -> subprocess.Popen[str]:
    """A process that has written the file and has not renamed it; it goes on with the next line of its input."""
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(target)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "half\n"
    return writer


def kill_half_way(target: Path) -> None:
    """Leaves what a writer leaves that is killed."""
    with half_written(target) as writer:
        writer.send_signal(signal.SIGKILL)
    assert not target.exists()
    assert len(list(target.parent.iterdir())) == 1


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_an_installer_that_was_killed(tmp_path: Path) -> None:
    """The next one removes what is left, also in another version's folder, and where its own library is there."""
    folders = [library.folder(tmp_path) for library in (OLDER, NEWER)]
    for folder in folders:
        folder.mkdir()
        kill_half_way(folder / "libnvshare.so")
    target, _ = install(NEWER, tmp_path)
    assert files(tmp_path) == [target]
    kill_half_way(folders[0] / "libnvshare.so")
    assert install(NEWER, tmp_path) == (target, False)
    assert files(tmp_path) == [target]


def test_a_cdi_file_that_was_half_written(tmp_path: Path) -> None:
    """It is removed when the file is written."""
    kill_half_way(tmp_path / cdi.file_name(cdi.KIND))
    CdiFile(tmp_path, cdi.KIND, Path("/library"), Path("/client")).look(["GPU-a"])
    assert files(tmp_path) == [tmp_path / cdi.file_name(cdi.KIND)]


@pytest.mark.parametrize("library", [OLDER, NEWER], ids=["the same", "another"])
def test_an_installer_that_still_writes(tmp_path: Path, library: Library) -> None:
    """What it writes is its own, whoever installs meanwhile."""
    target = OLDER.folder(tmp_path) / "libnvshare.so"
    target.parent.mkdir()
    with half_written(target) as writer:
        install(library, tmp_path)
        writer.communicate("go on\n", timeout=60)
    assert writer.returncode == 0
    assert target.read_bytes() == b"whole"
    assert len(files(target.parent)) == 1


def test_where_files_can_not_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written all the same, and what may be somebody's stays."""
    kill_half_way(tmp_path / "file")

    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    remove_leftovers(tmp_path, "file")
    write_whole(tmp_path / "file", b"whole", 0o644)
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert len(files(tmp_path)) == 2


def test_one_that_was_taken_for_a_leftover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its making and its lock somebody may have removed it: another is made."""
    lock: Callable[[int, int], None] = fcntl.flock

    def come_too_late(descriptor: int, operation: int) -> None:
        monkeypatch.undo()
        remove_leftovers(tmp_path, "file")
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", come_too_late)
    write_whole(tmp_path / "file", b"whole", 0o644)
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert files(tmp_path) == [tmp_path / "file"]
