"""What an executable file says of itself, as far as it decides whether a library can be preloaded. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_MAGIC = b"\x7fELF"
_HEADER = struct.Struct("<16x2xH4x8xQ8x4x2xHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<qQ")
_MACHINES = {62: "x86_64", 183: "aarch64"}
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _STRINGS = 1, 5


@dataclass(frozen=True, slots=True)
class Elf:
    """An ELF file."""

    machine: str
    """As ``platform.machine()`` says it; a number for one that nvshare has no library for."""
    interpreter: str
    """The dynamic loader that it asks for; empty: it is statically linked, or a library."""
    needed: tuple[str, ...]

    @property
    def is_static(self) -> bool:
        """Nothing can be preloaded into it."""
        return not self.interpreter

    @property
    def is_musl(self) -> bool:
        """Its C library is musl."""
        return "ld-musl" in self.interpreter or any(name.startswith("libc.musl") for name in self.needed)


def read(content: bytes) -> Elf | None:
    """What a file's content says; None: it is no ELF file of 64 bits, or a broken one."""
    if content[:4] != _MAGIC or content[4:6] != b"\x02\x01":
        return None
    try:
        machine, place, size, count = _HEADER.unpack_from(content)
        segments = [_SEGMENT.unpack_from(content, place + number * size) for number in range(count)]
        return Elf(_MACHINES.get(machine, str(machine)), _interpreter(content, segments), _needed(content, segments))
    except (struct.error, ValueError):
        return None


def _interpreter(content: bytes, segments: list[tuple[int, ...]]) -> str:
    for kind, _flags, offset, _address, _physical, size, *_rest in segments:
        if kind == _INTERPRETER:
            return content[offset : offset + size].rstrip(b"\0").decode(errors="replace")
    return ""


def _needed(content: bytes, segments: list[tuple[int, ...]]) -> tuple[str, ...]:
    entries = [
        entry
        for kind, _flags, offset, _address, _physical, size, *_rest in segments
        if kind == _DYNAMIC
        for entry in _ENTRY.iter_unpack(content[offset : offset + size - size % _ENTRY.size])
    ]
    strings = next((_offset(segments, value) for tag, value in entries if tag == _STRINGS), None)
    if strings is None:
        return ()
    return tuple(_string(content, strings + value) for tag, value in entries if tag == _NEEDED)


def _offset(segments: list[tuple[int, ...]], address: int) -> int | None:
    for kind, _flags, offset, start, _physical, size, *_rest in segments:
        if kind == _LOAD and start <= address < start + size:
            return offset + address - start
    return None


def _string(content: bytes, start: int) -> str:
    return content[start : content.index(b"\0", start)].decode(errors="replace")
