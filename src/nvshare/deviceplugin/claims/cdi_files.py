"""Keeps the files in which container runtimes find the CDI devices of claims, one a claim.

They are written from the records: after a restart of the node, and for another version of nvshare, they are again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path

from nvshare.deviceplugin.answers.allocation import Injection
from nvshare.deviceplugin.claims.claim import Record
from nvshare.deviceplugin.claims.edits import file_name, specification
from nvshare.deviceplugin.host.whole_files import is_unchanged, write_whole


class CdiFiles:
    """The files of claims in one folder. All calls may wait for the disk; one at a time."""

    def __init__(self, folder: Path, injection: Injection, nodes: Callable[[str], tuple[Path, ...]]) -> None:
        """``nodes``: the device nodes of a GPU, which may become others."""
        self._folder = folder
        self._injection = injection
        self._nodes = nodes
        self._right: dict[str, tuple[os.stat_result, tuple[tuple[Path, ...], ...]]] = {}
        """By claim: its file as it was when its content was right, and the device nodes in it."""

    def keep(self, record: Record) -> bool:
        """Writes a claim's file unless it is there and right; whether it had to. OSError."""
        file, nodes = self.file(record.uid), tuple(self._nodes(uuid) for uuid in record.uuids)
        was, had = self._right.get(record.uid, (None, ()))
        if was is not None and had == nodes and is_unchanged(was, file):
            return False
        content = specification(record, self._injection, dict(zip(record.uuids, nodes, strict=True)).__getitem__)
        new = _content(file) != content
        if new:
            write_whole(file, content, 0o644)
        self._right[record.uid] = file.stat(), nodes
        return new

    def remove(self, uid: str) -> None:
        """OSError; that of a claim which has none is done."""
        self._right.pop(uid, None)
        self.file(uid).unlink(missing_ok=True)

    def remove_others(self, uids: Collection[str]) -> None:
        """Removes files of all but these claims, and what a killed program left half written. OSError."""
        keep = {file_name(uid) for uid in uids}
        some = file_name("")
        for file in self._folder.glob(f"{some.removesuffix('.json')}*.json"):
            if file.name not in keep:
                file.unlink(missing_ok=True)
        for file in self._folder.glob(f".{some.removesuffix('.json')}*"):
            file.unlink(missing_ok=True)

    def file(self, uid: str) -> Path:
        return self._folder / file_name(uid)


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        # It is missing or can't be read: it is written, and if that fails too, the error says why.
        return None
