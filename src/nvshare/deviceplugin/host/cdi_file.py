"""Keeps the file in which container runtimes find nvshare's CDI devices.

It is never removed: a container that runs may be made anew at any time, and its runtime asks for the same devices then.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from nvshare import cdi
from nvshare.deviceplugin.host.whole_files import is_unchanged, remove_leftovers, write_whole


class CdiFile:
    """The file of one kind, which is written again whenever it is gone or is another one."""

    def __init__(self, folder: Path, kind: str, library_dir: Path, client_dir: Path) -> None:
        """``library_dir`` and ``client_dir`` are what the devices bring, as the host sees them."""
        self._file = folder / cdi.file_name(kind)
        self._kind = kind
        self._library_dir = library_dir
        self._client_dir = client_dir
        self._one_at_a_time = threading.Lock()
        self._right: os.stat_result | None = None
        """The file as it was when its content was right."""
        self.problem: str | None = None
        """Why it can't be written; None: nothing is wrong."""
        self.described: frozenset[str] | None = None
        """The GPUs that it has; None: it was not looked at yet."""

    def look_at_folder(self) -> None:
        """Finds out whether the file could be written, without writing it: for who is not the one to do that yet."""
        try:
            if not self._file.parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            if not os.access(self._file.parent, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            self.problem = None
        except OSError as error:
            self.problem = explain(error, self._file)

    def look(self, uuids: Iterable[str]) -> bool:
        """Writes it unless it is there and has these GPUs; whether it had to. May wait for the disk.

        May be called in several threads: before a registration, and every second.
        """
        with self._one_at_a_time:
            return self._look(tuple(uuids))

    def _look(self, wanted: tuple[str, ...]) -> bool:
        if self.described == frozenset(wanted) and self._right is not None and is_unchanged(self._right, self._file):
            return False
        content = cdi.specification(self._kind, wanted, self._library_dir, self._client_dir)
        try:
            new = self._content() != content
            if new:
                remove_leftovers(self._file.parent, self._file.name)
                write_whole(self._file, content, 0o644)
            self._right, self.problem = self._file.stat(), None
        except OSError as error:
            new, self._right, self.problem = False, None, explain(error, self._file)
        self.described = frozenset(wanted)
        return new

    def _content(self) -> bytes | None:
        try:
            return self._file.read_bytes()
        except OSError:
            # It is missing or can't be read. It is written then; if that fails too, the error says why.
            return None


def explain(error: OSError, file: Path) -> str:
    """Why a CDI file can't be written, and what to do."""
    match error.errno:
        case errno.ENOENT:
            remedy = f"the host's {file.parent} must be there, and be mounted into this container"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            remedy = "mount the host's folder writable and run as root"
        case _:
            remedy = "name another folder that the container runtime reads with --cdi-spec-dir"
    return f"CDI file {file} can't be written: {error.strerror}: {remedy}"
