"""The library on the host: whole or not at all, and never changed under a running pod."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.deviceplugin.host.install import Installation, InstallError, Library, install, read_library

LIBRARY = Library("0.2.0", b"\x7fELF" + bytes(100_000))


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_installs_whole_and_readable(tmp_path: Path) -> None:
    """The file is there with its content, in a folder of its version, readable for every user of every container."""
    target, new = install(LIBRARY, tmp_path / "not" / "yet" / "there")
    assert new
    assert target.read_bytes() == LIBRARY.content
    assert target.parent.name.startswith("0.2.0-")
    assert target.name == "libnvshare.so"
    assert target.stat().st_mode & 0o777 == 0o755
    assert target.parent.stat().st_mode & 0o777 == 0o755
    assert files(tmp_path) == [target]


def test_again_changes_nothing(tmp_path: Path) -> None:
    """An identical re-installation, as at every restart of the pod, leaves even the inode alone."""
    target, _ = install(LIBRARY, tmp_path)
    before = target.stat()
    assert install(LIBRARY, tmp_path) == (target, False)
    assert target.stat() == before or target.stat().st_ino == before.st_ino


def test_versions_stay_side_by_side(tmp_path: Path) -> None:
    """Another version, and another content of the same version, get other folders."""
    first, _ = install(LIBRARY, tmp_path)
    second, _ = install(Library("0.3.0", LIBRARY.content), tmp_path)
    third, _ = install(Library("0.2.0", LIBRARY.content + b"more"), tmp_path)
    assert len({first, second, third}) == 3
    assert all(path.exists() for path in (first, second, third))


def test_a_damaged_file_is_replaced_not_written_into(tmp_path: Path) -> None:
    """Whoever has the old file mapped keeps it: the name gets a new inode."""
    target, _ = install(LIBRARY, tmp_path)
    target.write_bytes(b"damaged")
    with target.open("rb") as mapped:
        assert install(LIBRARY, tmp_path) == (target, True)
        assert mapped.read() == b"damaged"
    assert target.read_bytes() == LIBRARY.content


def test_an_installation_is_kept(tmp_path: Path) -> None:
    """Whatever happens to the file, its folder or all of them, the next look finds it and puts the library there."""
    installation = Installation(LIBRARY, tmp_path / "root")
    target = LIBRARY.folder(tmp_path / "root") / "libnvshare.so"
    assert installation.problem is not None
    damages: list[Callable[[], object]] = [
        lambda: None,
        target.unlink,
        lambda: shutil.rmtree(target.parent),
        lambda: shutil.rmtree(tmp_path / "root"),
        lambda: target.write_bytes(b"short"),
        lambda: target.write_bytes(LIBRARY.content[:-1] + b"x"),
    ]
    for damage in damages:
        damage()
        assert installation.look()
        assert installation.problem is None
        assert target.read_bytes() == LIBRARY.content
        assert not installation.look()


def test_an_installation_that_fails_says_why(tmp_path: Path) -> None:
    """Until it succeeds."""
    blocked = tmp_path / "host"
    blocked.write_text("")
    installation = Installation(LIBRARY, blocked)
    assert not installation.look()
    assert "can't be written" in str(installation.problem)
    blocked.unlink()
    assert installation.look()
    assert installation.problem is None


def test_what_is_there_can_not_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens to the file once it is written: the next look installs it, and nothing is raised."""
    installation = Installation(LIBRARY, tmp_path / "host")
    folder = LIBRARY.folder(tmp_path / "host")

    def replaced(library: Library, root: Path) -> tuple[Path, bool]:
        target, new = install(library, root)
        target.unlink()
        folder.rmdir()
        folder.write_text("")
        return target, new

    with monkeypatch.context() as patch:
        patch.setattr("nvshare.deviceplugin.host.install.install", replaced)
        assert not installation.look()
    folder.unlink()
    assert installation.look()
    assert installation.problem is None


def in_child(code: str, tmp_path: Path, limit: int) -> subprocess.CompletedProcess[str]:
    """Runs an installation in a process that may write files of at most ``limit`` bytes."""

    def restrict() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    source = tmp_path / "source.so"
    source.write_bytes(LIBRARY.content)
    program = textwrap.dedent(code)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, "-c", program, str(source), str(tmp_path / "host")],
        capture_output=True,
        text=True,
        preexec_fn=restrict,
        env=environment,
        timeout=60,
    )


INSTALL = """
    import sys
    from pathlib import Path
    from nvshare.deviceplugin.host.install import InstallError, install, read_library
    try:
        install(read_library(Path(sys.argv[1]), "0.2.0"), Path(sys.argv[2]))
    except InstallError as error:
        sys.exit(str(error))
"""


def test_no_room_for_the_file(tmp_path: Path) -> None:
    """A write that fails in the middle names the path and the bytes, and leaves neither file nor folder."""
    result = in_child(INSTALL, tmp_path, limit=50_000)
    assert result.returncode == 1
    assert str(tmp_path / "host" / "0.2.0-") in result.stderr
    assert f"needs {len(LIBRARY.content)} bytes" in result.stderr
    assert "free some space" in result.stderr
    assert list((tmp_path / "host").iterdir()) == []


def test_full_disk(tmp_path: Path, tool: Callable[[str], str]) -> None:
    """The same on a file system that is really full; where mounting is not allowed, RLIMIT_FSIZE above must do."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = [tool("mount"), "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a file system is not allowed here")
    try:
        with pytest.raises(InstallError, match=r"No space left on device.*needs 100004 bytes: free some space"):
            install(LIBRARY, disk)
        assert files(disk) == []
        small = Library("0.2.0", b"\x7fELF")
        assert install(small, disk)[0].read_bytes() == small.content
    finally:
        subprocess.run([tool("umount"), str(disk)], check=True)


def test_an_older_version_survives_a_full_disk(tmp_path: Path) -> None:
    """What running pods use is not touched when a new version finds no room."""
    older, _ = install(Library("0.1.0", b"\x7fELFold"), tmp_path / "host")
    assert in_child(INSTALL, tmp_path, limit=50_000).returncode == 1
    assert older.read_bytes() == b"\x7fELFold"
    assert files(tmp_path / "host") == [older]


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    """A host path that can't be a folder is named, with what to do."""
    (tmp_path / "host").write_text("")
    with pytest.raises(InstallError, match=r"host/0.2.0-.*can't be written.*--library-dir"):
        install(LIBRARY, tmp_path / "host")


def test_folder_that_can_not_be(tmp_path: Path) -> None:
    """The same for a path that is too long."""
    with pytest.raises(InstallError, match=r"can't be written: File name too long: name another .*--library-dir"):
        install(LIBRARY, tmp_path / ("folder/" * 1000))


def test_what_is_no_library(tmp_path: Path) -> None:
    """A missing file or another kind of file is named."""
    with pytest.raises(InstallError, match=r"missing.so: No such file.*--source"):
        read_library(tmp_path / "missing.so", "0.2.0")
    (tmp_path / "text.so").write_text("INPUT(libother.so)")
    with pytest.raises(InstallError, match=r"text.so is not a shared library"):
        read_library(tmp_path / "text.so", "0.2.0")
