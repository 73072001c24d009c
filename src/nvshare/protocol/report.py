"""What a process reported of itself, read from its file; ``report.h`` gives the layout, and says what for.

Nothing of cffi leaves this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag
from typing import Any, Final

from nvshare.protocol.layout import ffi, lib

REPORT_BYTES: Final[int] = ffi.sizeof("struct nvs_report")


class Route(Flag):
    """How the program came to a function of the driver."""

    LINKED = lib.NVS_ROUTE_LINKED
    DLSYM = lib.NVS_ROUTE_DLSYM
    PROC_ADDRESS = lib.NVS_ROUTE_PROC_ADDRESS
    TABLE = lib.NVS_ROUTE_TABLE


class Kind(Enum):
    """Why device memory can't be moved."""

    ARRAYS = lib.NVS_BYTES_ARRAYS
    POOLS = lib.NVS_BYTES_POOLS
    GRAPHS = lib.NVS_BYTES_GRAPHS
    HANDLES = lib.NVS_BYTES_HANDLES
    SHARED = lib.NVS_BYTES_SHARED
    OTHER = lib.NVS_BYTES_OTHER


class Tie(Flag):
    """What makes a process wait for others."""

    NAME = 1 << lib.NVS_TIE_NAME
    COLLECTIVE = 1 << lib.NVS_TIE_COLLECTIVE
    MEMORY = 1 << lib.NVS_TIE_MEMORY


@dataclass(frozen=True, slots=True)
class Name:
    """A function, or a table, that the program found."""

    text: str
    hooked: Route
    """Routes that led to the library's hook."""
    driver: Route
    """Routes that led to the driver's own function."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that the process used."""

    ordinal: int
    uuid: str
    backend: str
    """``swap``, ``managed`` or ``native``; empty: no scheduler took the process."""
    registered: bool
    refused: bool
    unlocked: bool
    """The gate was open without a scheduler's word."""
    in_gang: bool
    ties: Tie
    turns: int
    given_back: int
    waits: int
    submissions: int
    """At least."""
    movable_bytes: int
    """The most at a time; so are the next two."""
    fixed_bytes: int
    fixed_by: dict[Kind, int]
    """Kinds of which there was none are left out."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one process said."""

    pid: int
    """In its own pid namespace."""
    command: str
    notices: frozenset[int]
    """Numbers of ``enum nvs_notice``."""
    deep: bool
    """The driver's symbol tables were changed, for RTLD_DEEPBIND."""
    lost: int
    """Names for which there was no room."""
    devices: tuple[Device, ...]
    names: tuple[Name, ...]


def read(content: bytes) -> Report | None:
    """What a report's file says; None: it is none, or was only begun."""
    if len(content) != REPORT_BYTES:
        return None
    report: Any = ffi.new("struct nvs_report *")
    ffi.memmove(report, content, REPORT_BYTES)
    if report.magic != lib.NVS_REPORT_MAGIC:
        return None
    names: dict[str, Name] = {}
    for entry in report.names:
        if entry.state == lib.NVS_REPORT_NAME_READY:
            # Two threads that found it at the same time may both have entered it.
            text = _text(entry.name)
            before = names.get(text, Name(text, Route(0), Route(0)))
            names[text] = Name(text, before.hooked | _routes(entry.hooked), before.driver | _routes(entry.driver))
    return Report(
        report.pid,
        _text(report.command),
        frozenset(number for number in range(32) if report.notices >> number & 1),
        bool(report.deep),
        report.lost,
        tuple(_device(number, device) for number, device in enumerate(report.devices) if device.flags),
        tuple(sorted(names.values(), key=lambda name: name.text)),
    )


def _device(ordinal: int, device: Any) -> Device:
    flags = device.flags
    return Device(
        ordinal,
        _uuid(bytes(device.uuid)),
        _backend(device),
        bool(flags & lib.NVS_REPORT_REGISTERED),
        bool(flags & lib.NVS_REPORT_REFUSED),
        bool(flags & lib.NVS_REPORT_UNLOCKED),
        bool(flags & lib.NVS_REPORT_IN_GANG),
        Tie(device.ties & _all(Tie)),
        device.turns,
        device.given_back,
        device.waits,
        device.submissions,
        device.movable_most,
        device.fixed_most,
        {kind: device.bytes_most[kind.value] for kind in Kind if device.bytes_most[kind.value]},
    )


def _backend(device: Any) -> str:
    if not device.flags & lib.NVS_REPORT_REGISTERED:
        return ""
    if device.swaps:
        return "swap"
    return "native" if device.backend == lib.NVS_BACKEND_NATIVE else "managed"


def _uuid(raw: bytes) -> str:
    text = raw.hex()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _routes(bits: int) -> Route:
    return Route(bits & _all(Route))


def _all(kind: type[Flag]) -> int:
    return sum(member.value for member in kind)


def _text(characters: Any) -> str:
    """Of what a process wrote only what a terminal can show."""
    raw: bytes = ffi.string(characters, len(characters))
    return "".join(character if character.isprintable() else "?" for character in raw.decode(errors="replace"))
