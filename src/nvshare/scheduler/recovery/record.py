"""The record of holders: a file in the run directory that says who holds what, for the scheduler after this one.

A grant is written before its client hears of it. One write of a slot within a page is whole or not made at all when the
scheduler is killed; a power failure need not be survived, because no holder survives it either. Room for slots is
taken from the disk beforehand, so that a full one does no harm.
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
class Holder:
    """A process that holds the lock of a device as grant ``grant``."""

    device: str
    grant: int
    pid: int
    """0: hidden by its pid namespace."""
    started: int
    """See ``processes.start_time``."""
    command: str
    """For people, cut to 56 bytes."""


class HolderRecord:
    """The file of one run directory, open until the process ends. Its owner has claimed the directory."""

    def __init__(self, path: Path, log: Log) -> None:
        """Reads what the scheduler before this one left. OSError: there is no room for it, or it can't be opened."""
        self._path = path
        self._log = log
        self._slots: dict[int, int] = {}
        """The places of holders, by grant."""
        self._failing = False
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self.found = self._read()
            """The holders that the scheduler before this one left, one for each grant."""
            self._capacity = max(_FIRST_SLOTS, os.fstat(self._file).st_size // _SLOT_BYTES - 1)
            os.posix_fallocate(self._file, 0, (1 + self._capacity) * _SLOT_BYTES)
            header = _HEADER.pack(_MAGIC, this_boot().encode(), pid_namespace())
            os.pwrite(self._file, header.ljust(_SLOT_BYTES, b"\0"), 0)
        except BaseException:
            os.close(self._file)
            raise
        taken = set(self._slots.values())
        self._free = [place for place in range(self._capacity, 0, -1) if place not in taken]

    def granted(self, holder: Holder) -> None:
        """Writes a holder down. That it could not be written is logged, once as long as it lasts."""
        place = self._take_place()
        if place is not None:
            self._slots[holder.grant] = place
            self._write(place, _pack(holder))

    def released(self, grant: int) -> None:
        """Nothing runs under this grant any more; nothing happens if it was not recorded."""
        place = self._slots.pop(grant, None)
        if place is not None:
            self._write(place, _FREE)
            self._free.append(place)

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
                "cannot record a holder: after a crash the next scheduler does not wait for it",
                path=str(self._path),
                reason=error.strerror,
            )
        self._failing = True

    def _read(self) -> tuple[Holder, ...]:
        size = os.fstat(self._file).st_size
        if not size:
            return ()
        data = os.pread(self._file, size, 0)
        magic, boot, namespace = _HEADER.unpack_from(data.ljust(_HEADER.size, b"\0"))
        if magic != _MAGIC:
            self._log.warning("the record of holders is damaged; nobody is waited for", path=str(self._path))
            os.ftruncate(self._file, 0)
            return ()
        if boot.rstrip(b"\0").decode("ascii", "replace") != this_boot():
            os.ftruncate(self._file, 0)
            return ()
        hidden = namespace != pid_namespace()
        found = {holder.grant: (place, holder) for place, holder in self._slots_of(data)}
        self._slots = {grant: place for grant, (place, _holder) in found.items()}
        return tuple(replace(holder, pid=0, started=0) if hidden else holder for _place, holder in found.values())

    def _slots_of(self, data: bytes) -> Iterator[tuple[int, Holder]]:
        for place in range(1, len(data) // _SLOT_BYTES):
            slot = data[place * _SLOT_BYTES : (place + 1) * _SLOT_BYTES]
            if slot == _FREE:
                continue
            holder = _unpack(slot)
            if holder is None:
                self._log.warning("an entry of the record of holders is damaged", path=str(self._path), place=place)
                self._write(place, _FREE)
            else:
                yield place, holder


def _pack(holder: Holder) -> bytes:
    command = holder.command.encode("utf-8", "replace")[:56]
    body = _SLOT.pack(holder.grant, holder.pid, holder.started, holder.device.encode(), command)
    return (_CHECK.pack(zlib.crc32(body)) + body).ljust(_SLOT_BYTES, b"\0")


def _unpack(slot: bytes) -> Holder | None:
    body = slot[_CHECK.size : _CHECK.size + _SLOT.size]
    if _CHECK.unpack_from(slot)[0] != zlib.crc32(body):
        return None
    grant, pid, started, device, command = _SLOT.unpack(body)
    return Holder(_text(device), grant, pid, started, _text(command))


def _text(field: bytes) -> str:
    return field.rstrip(b"\0").decode("utf-8", "ignore")
