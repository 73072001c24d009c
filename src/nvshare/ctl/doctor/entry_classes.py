"""What the library does with each function of the driver that a program found. Pure, but for the list that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nvshare.cuda.entrypoints import EntryPoint
from nvshare.protocol.report import Name, Route


class Treatment(StrEnum):
    """What becomes of a call."""

    GATED = "gated"
    """It waits for the program's turn."""
    COUNTED = "counted"
    """It allocates or frees device memory, which is moved or counted."""
    FOLLOWED = "followed"
    """It is seen, because something that follows depends on it."""
    PASSED = "passed on purpose"
    UNKNOWN = "unknown"
    """This version of nvshare does not know the function."""
    ESCAPED = "not gated"
    """It should have been hooked, and the program has the driver's own function."""


_COUNTED = ("ALLOC", "ALLOC-GRAPH", "FREE", "POOL", "VMM", "SHARE")
_MUST_BE_HOOKED = ("GATE-", "TRACK-STREAMOP", "ALLOC", "FREE")

_REASONS = {
    "PASS": "submits no work and takes no device memory",
    "LOOK": "looks at memory that is in its place anyway",
    "BOOT": "begins, before there is a device",
    "VIEW": "tells of memory what the driver knows best",
    "POOL": "says how a pool is; what comes out of it is counted",
    "CTX": "asks about a context; whoever makes or ends one is followed",
    "SYNC": "waits for work that has passed the gate",
    "MODULE": "loads code; what it takes is measured by NVML",
    "HOSTPIN": "takes host memory only",
    "SHARE": "opens what another interface allocated, which is in that one's account",
    "VMM": "asks about virtual memory, or binds what is counted already",
    "STREAM": "makes a stream; what goes into it passes the gate",
    "CAPTURE": "records work; its launch passes the gate",
    "RESOLVE": "looks functions up; its answers are replaced",
    "CKPT": "the driver's own checkpoints",
}
_TABLES = {
    "6bd5fb6c5bf4e74a8987d93912fd9df9": "the runtime's own interface",
    "a094798c2e742e7493f20800200c0a66": "callbacks for tools",
    "42d85a8123f6cb478298f6e78a3aecdc": "thread-local storage for tools",
    "c693336e1121df11a8c368f355d89593": "storage that belongs to a context",
    "263e88607cd2614392f6bbd5006dfa7e": "checks of a context",
    "d4082055bde6704b8d34ba123c66e1f2": "checks of the driver",
    "f8cff95121468b4eb9e2fb469e7c0dd9": "how the runtime begins",
    "21318c60971432488ca641ff7324c8f2": "the runtime's own interface",
    "0ca50b8c1004929a89a7d0df10e77286": "how a library makes its context",
    "195bcbf4d67d024aacc51d29cea631ae": "the heap of a context",
    "b10541e1f7c7c74a9f64f223be99f1e2": "more about a device",
}
"""Tables that NVIDIA's own libraries ask for, by their ids."""
_OF_NVIDIA = ("libcuda", "libcu", "libnv", "libnccl", "libnpp", "libcurand", "libcufft", "libcupti")


@dataclass(frozen=True, slots=True)
class Use:
    """A function, or a table of them, that a program found."""

    name: str
    kind: str
    """Its class in the list of entry points; empty: it is not in the list."""
    routes: Route
    treatment: Treatment
    reason: str = ""
    """Why it is passed on purpose, or what is wrong; empty where that is plain."""


def by_name(entries: Sequence[EntryPoint]) -> dict[str, tuple[EntryPoint, ...]]:
    """The rows of the list by every name under which a function can be asked for."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entries:
        for name in {entry.symbol, entry.base}:
            found[name] = (*found.get(name, ()), entry)
    return found


def use_of(name: Name, entries: Mapping[str, Sequence[EntryPoint]]) -> Use:
    """What becomes of calls of a function that a program found."""
    if Route.TABLE in name.driver:
        return _table(name.text)
    rows = entries.get(name.text, ())
    exact = [row for row in rows if row.symbol == name.text] or list(rows)
    kind = exact[0].kind if exact else ""
    if name.driver:
        return _of_the_driver(name, kind, exact)
    return Use(name.text, kind, name.hooked, _hooked(kind))


def _hooked(kind: str) -> Treatment:
    if kind.startswith("GATE-") or kind in ("TRACK-STREAMOP", "LOOK"):
        return Treatment.GATED
    return Treatment.COUNTED if kind in _COUNTED else Treatment.FOLLOWED


def _of_the_driver(name: Name, kind: str, rows: Sequence[EntryPoint]) -> Use:
    routes = name.driver | name.hooked
    if not rows:
        return Use(name.text, "", routes, Treatment.UNKNOWN, "newer than this version of nvshare")
    if not all(row.kind.startswith(_MUST_BE_HOOKED) for row in _meant(name, rows)):
        return Use(name.text, kind, routes, Treatment.PASSED, _REASONS.get(kind, ""))
    if name.driver == Route.PROC_ADDRESS and not name.hooked:
        return Use(name.text, kind, routes, Treatment.UNKNOWN, "a form newer than this version of nvshare")
    return Use(name.text, kind, routes, Treatment.ESCAPED, "the program has the driver's own function")


def _meant(name: Name, rows: Sequence[EntryPoint]) -> Sequence[EntryPoint]:
    """Of a base name any of its forms may be meant that is not hooked."""
    return rows if name.driver == Route.PROC_ADDRESS else rows[:1]


def _table(text: str) -> Use:
    table, _, asker = text.partition(" ")
    what = f"table {table}" + (f" for {asker}" if asker else "")
    if table in _TABLES:
        return Use(what, "RESOLVE", Route.TABLE, Treatment.PASSED, _TABLES[table])
    if asker.startswith(_OF_NVIDIA):
        return Use(what, "RESOLVE", Route.TABLE, Treatment.PASSED, "a library of NVIDIA's asked for it")
    reason = "functions without names, which no library of NVIDIA's is known to ask for"
    return Use(what, "RESOLVE", Route.TABLE, Treatment.ESCAPED, reason)
