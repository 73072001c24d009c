"""The claims that are prepared on this node, a file each: they outlive the program, and the node's restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nvshare.deviceplugin.claims.claim import Record, Request, Share
from nvshare.deviceplugin.host.whole_files import write_whole
from nvshare.terms_texts import Terms

_VERSION = 1


class DamagedError(Exception):
    """A file can't be understood; the text names it, and says why."""


@dataclass(frozen=True, slots=True)
class RecordFiles:
    """The files of a folder, which is made when it is missing. All calls may wait for the disk."""

    folder: Path

    def uids(self) -> Iterator[str]:
        """The claims that have a file; none where there is no folder. OSError."""
        with suppress(FileNotFoundError):
            for file in self.folder.iterdir():
                if file.suffix == ".json" and not file.name.startswith("."):
                    yield file.stem

    def remove_half_written(self) -> None:
        """What a killed program left. OSError. Nobody else may write meanwhile."""
        for file in self.folder.glob(".*"):
            file.unlink(missing_ok=True)

    def read(self, uid: str) -> Record | None:
        """The record of a claim; None: there is none. DamagedError."""
        file = self.file(uid)
        try:
            record = record_in(file.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedError(f"{file} can't be read: {error.strerror}") from error
        except ValueError as error:
            raise DamagedError(f"{file} can't be understood: {error}") from error
        if record.uid != uid:
            raise DamagedError(f"{file} is of another claim: {record.uid}")
        return record

    def write(self, record: Record) -> None:
        """OSError, whose text names the file: nothing was written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.file(record.uid), content(record), 0o600)

    def written_at(self, uid: str) -> datetime:
        """When the claim's file was written. OSError."""
        return datetime.fromtimestamp(self.file(uid).stat().st_mtime, UTC)

    def remove(self, uid: str) -> None:
        """OSError; that of a claim which has none is done."""
        self.file(uid).unlink(missing_ok=True)

    def file(self, uid: str) -> Path:
        return self.folder / f"{uid}.json"


def content(record: Record) -> bytes:
    """What a record's file has in it."""
    document = {"version": _VERSION, **asdict(record)}
    return json.dumps(document, indent=1).encode() + b"\n"


def record_in(text: bytes) -> Record:
    """The record that a file has in it; ValueError."""
    document = json.loads(text)
    try:
        if document.pop("version") != _VERSION:
            raise ValueError("another version of nvshare wrote it")
        requests = tuple(_request(each) for each in document.pop("requests"))
        return Record(requests=requests, **document)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"it is no record: {error}") from error


def _request(document: dict[str, Any]) -> Request:
    devices = (Share(**(each | {"terms": Terms(**each["terms"])})) for each in document["devices"])
    return Request(document["name"], tuple(devices))
