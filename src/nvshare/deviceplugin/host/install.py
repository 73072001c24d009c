"""Puts libnvshare.so on the host, into a folder of its own version and content.

A running pod has the folder of its version mounted and maps the file in it: neither is ever changed or removed here.
What an installer left half written that was killed is, in the folder of any version.
"""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nvshare.deviceplugin.host.whole_files import is_unchanged, remove_leftovers, write_whole
from nvshare.paths import LIBRARY_NAME
from nvshare.regular_files import read_regular

_MOST_BYTES = 64 << 20
"""Many times what the library has."""


class InstallError(Exception):
    """The library can't be installed; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Library:
    """The library as this version of nvshare ships it."""

    version: str
    content: bytes

    def folder(self, root: Path) -> Path:
        """Where it belongs below ``root``: another content is another folder, even if the version is the same."""
        return root / f"{self.version}-{hashlib.sha256(self.content).hexdigest()[:12]}"


def read_library(source: Path, version: str) -> Library:
    """The library in ``source``; raises InstallError when there is none."""
    try:
        content = read_regular(source, _MOST_BYTES)
    except OSError as error:
        raise InstallError(f"{source}: {error.strerror}: name the library with --source") from error
    if content[:4] != b"\x7fELF":
        raise InstallError(f"{source} is not a shared library: name the library with --source")
    return Library(version, content)


def install(library: Library, root: Path) -> tuple[Path, bool]:
    """Installs below ``root``; returns the file and whether it is new. On an InstallError nothing is left behind."""
    target = library.folder(root) / LIBRARY_NAME
    # Where the folder can't be used, what is written below says why.
    with suppress(OSError):
        for folder in root.iterdir():
            remove_leftovers(folder, LIBRARY_NAME)
    try:
        if target.read_bytes() == library.content:
            return target, False
    except OSError:
        # It is missing or can't be read. It is written below; if that fails too, the error says why.
        pass
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.parent.chmod(0o755)
        write_whole(target, library.content, 0o755)
    except OSError as error:
        _remove_if_empty(target.parent)
        raise InstallError(_explain(error, target, len(library.content))) from error
    return target, True


class Installation:
    """The library on the host, which is installed again whenever it is gone or is another one."""

    def __init__(self, library: Library, root: Path) -> None:
        self._library = library
        self._root = root
        self._file = library.folder(root) / LIBRARY_NAME
        self._right: os.stat_result | None = None
        """The file as it was when its content was right."""
        self.problem: str | None = f"library {self._file} was not looked for yet"
        """Why the library is not there; None: it is."""

    def look(self) -> bool:
        """Installs it unless it is there; whether it had to be. May wait for the disk."""
        if self._right is not None and is_unchanged(self._right, self._file):
            return False
        try:
            _, new = install(self._library, self._root)
            self._right = self._file.stat()
            self.problem = None
        except InstallError as error:
            new, self._right, self.problem = False, None, str(error)
        except OSError:
            # Removed again already, or out of reach: the next look installs it.
            new, self._right = False, None
        return new


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        # Not there, or not empty: then it is not what we just made.
        return


def _explain(error: OSError, target: Path, size: int) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            remedy = f"it needs {size} bytes: free some space on that file system; nothing was left behind"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            remedy = "mount the host's folder writable and run as root"
        case _:
            remedy = "name another folder with --library-dir"
    return f"{target} can't be written: {error.strerror}: {remedy}"
