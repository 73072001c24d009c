"""A record: a file in the run directory that says who has what, for the next scheduler.

There is one of holders, and one of processes whose memory swaps. A grant, or a registration, is written before its
client hears of it. A slot lies within a page and is written at once: when the scheduler is killed, it is there whole or
not at all. It need not survive a power failure, which no holder survives either. The disk space for slots is taken
beforehand, so a full disk does no harm.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nvshare.log import Log
from nvshare.scheduler.pods.processes import pid_namespace, this_boot

_SLOT_BYTES = 128
_SLOT = struct.Struct("=QIQ48s56s")
_CHECK = struct.Struct("=I")
_HEADER = struct.Struct("=8s40sQ")
_MAGIC = b"NVSHOLD1"
_FREE = bytes(_SLOT_BYTES)
_FIRST_SLOTS = 1024


@dataclass(frozen=True, slots=True)
class Recorded:
    """A process that has something on a device: the lock, or memory that swaps."""

    device: str
    number: int
    """What names it in its record: a holder's grant."""
    pid: int
    """0: hidden by its pid namespace."""
    started: int
    """See ``processes.start_time``."""
    command: str
    """For people, cut to 56 bytes."""


class Record:
    """One file of a run directory, open until this process ends. Its owner has claimed the directory."""

    def __init__(self, path: Path, of: str, log: Log) -> None:
        """Reads what the scheduler before this one left. OSError: there is no room for it, or it can't be opened.

        ``of``: who is recorded, for people.
        """
        self.path = path
        """Where the scheduler after this one looks for it."""
        self._of = of
        self._log = log
        self._slots: dict[int, int] = {}
        """The places of those that are recorded, by number."""
        self._failing = False
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self.found = self._read()
            """Those that the scheduler before this one left, one for each number."""
            self._capacity = max(_FIRST_SLOTS, os.fstat(self._file).st_size // _SLOT_BYTES - 1)
            os.posix_fallocate(self._file, 0, (1 + self._capacity) * _SLOT_BYTES)
            header = _HEADER.pack(_MAGIC, this_boot().encode(), pid_namespace())
            os.pwrite(self._file, header.ljust(_SLOT_BYTES, b"\0"), 0)
        except BaseException:
            os.close(self._file)
            raise
        taken = set(self._slots.values())
        self._free = [place for place in range(self._capacity, 0, -1) if place not in taken]

    def add(self, entry: Recorded) -> None:
        """Writes one down. That it could not be written is logged, once as long as it lasts."""
        place = self._take_place()
        if place is not None:
            self._slots[entry.number] = place
            self._write(place, _pack(entry))

    def erase(self, number: int) -> None:
        """It has nothing any more; nothing happens if it was not recorded."""
        place = self._slots.pop(number, None)
        if place is not None:
            self._write(place, _FREE)
            self._free.append(place)

    def is_named(self) -> bool:
        """Whether the file has its name still; a scheduler after this one would find it."""
        try:
            return os.path.samestat(self.path.lstat(), os.fstat(self._file))
        except OSError:
            return False

    def write_anew(self) -> None:
        """Writes all of it into a file with its name, where that was removed; OSError if it can't be."""
        new = self.path.with_suffix(".new")
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            data = os.pread(self._file, os.fstat(self._file).st_size, 0)
            os.posix_fallocate(file, 0, len(data))
            os.pwrite(file, data, 0)
            new.rename(self.path)
        except BaseException:
            os.close(file)
            raise
        os.close(self._file)
        self._file = file

    def _take_place(self) -> int | None:
        if not self._free:
            try:
                os.posix_fallocate(self._file, 0, (1 + 2 * self._capacity) * _SLOT_BYTES)
            except OSError as error:
                self._failed(error)
                return None
            self._free = list(range(2 * self._capacity, self._capacity, -1))
            self._capacity *= 2
        return self._free.pop()

    def _write(self, place: int, slot: bytes) -> None:
        try:
            os.pwrite(self._file, slot, place * _SLOT_BYTES)
            self._failing = False
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        if not self._failing:
            self._log.warning(
                "cannot write to a record: after a crash the next scheduler does not wait for whom it lacks",
                of=self._of,
                path=str(self.path),
                reason=error.strerror,
            )
        self._failing = True

    def _read(self) -> tuple[Recorded, ...]:
        size = os.fstat(self._file).st_size
        if not size:
            return ()
        data = os.pread(self._file, size, 0)
        magic, boot, namespace = _HEADER.unpack_from(data.ljust(_HEADER.size, b"\0"))
        if magic != _MAGIC:
            self._log.warning(
                "a record is damaged, or another version of nvshare wrote it: nobody in it is waited for",
                of=self._of,
                path=str(self.path),
            )
            os.ftruncate(self._file, 0)
            return ()
        if boot.rstrip(b"\0").decode("ascii", "replace") != this_boot():
            os.ftruncate(self._file, 0)
            return ()
        hidden = namespace != pid_namespace()
        found = {entry.number: (place, entry) for place, entry in self._slots_of(data)}
        self._slots = {number: place for number, (place, _entry) in found.items()}
        return tuple(replace(entry, pid=0, started=0) if hidden else entry for _place, entry in found.values())

    def _slots_of(self, data: bytes) -> Iterator[tuple[int, Recorded]]:
        for place in range(1, len(data) // _SLOT_BYTES):
            slot = data[place * _SLOT_BYTES : (place + 1) * _SLOT_BYTES]
            if slot == _FREE:
                continue
            entry = _unpack(slot)
            if entry is None:
                self._log.warning("an entry of a record is damaged", of=self._of, path=str(self.path), place=place)
                self._write(place, _FREE)
            else:
                yield place, entry


def _pack(entry: Recorded) -> bytes:
    command = entry.command.encode("utf-8", "replace")[:56]
    body = _SLOT.pack(entry.number, entry.pid, entry.started, entry.device.encode(), command)
    return (_CHECK.pack(zlib.crc32(body)) + body).ljust(_SLOT_BYTES, b"\0")


def _unpack(slot: bytes) -> Recorded | None:
    body = slot[_CHECK.size : _CHECK.size + _SLOT.size]
    if _CHECK.unpack_from(slot)[0] != zlib.crc32(body):
        return None
    number, pid, started, device, command = _SLOT.unpack(body)
    return Recorded(_text(device), number, pid, started, _text(command))


def _text(field: bytes) -> str:
    return field.rstrip(b"\0").decode("utf-8", "ignore")
