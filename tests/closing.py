"""What programs do that close every descriptor that they don't know, and what they have there afterwards."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

FIRST = 100
"""Lower numbers are the program's own, or the driver's, without which nothing would go on natively either."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLOSE_RANGE = 436
_CLOEXEC = 4
_LAST = ctypes.c_uint(0xFFFFFFFF)
_CONTENTS = b"nobody else writes this. " * 4
_PLACE = 11


def numbers() -> list[int]:
    """What is open from ``FIRST`` on."""
    return sorted(number for number in map(int, os.listdir("/proc/self/fd")) if number >= FIRST)  # noqa: PTH208


def _loop() -> None:
    for number in range(FIRST, 4096):
        with contextlib.suppress(OSError):
            os.close(number)


def _range(flags: int = 0) -> None:
    if _LIBC.syscall(_CLOSE_RANGE, ctypes.c_uint(FIRST), _LAST, ctypes.c_uint(flags)):
        raise OSError(ctypes.get_errno(), "close_range")


CLOSERS: dict[str, Callable[[], object]] = {
    "loop": _loop,
    "close_range": _range,
    "cloexec": lambda: _range(_CLOEXEC),
    "closefrom": lambda: _LIBC.closefrom(FIRST),
}
"""How they close; ``cloexec`` closes nothing before the next exec."""


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file and one end of two connected sockets, of which each took the place of every second number."""

    file: int
    near: socket.socket
    far: socket.socket
    places: list[int]

    @classmethod
    def take(cls, places: list[int], *, socket_first: bool) -> OwnFile:
        """Puts them there, whatever is there now; what was said to the socket is not read yet."""
        file, _ = tempfile.mkstemp()
        os.write(file, _CONTENTS)
        os.lseek(file, _PLACE, os.SEEK_SET)
        near, far = socket.socketpair()
        far.send(_CONTENTS)
        for at, place in enumerate(places):
            os.dup2(near.fileno() if at % 2 != socket_first else file, place)
        return cls(file, near, far, places)

    def altered(self) -> str:
        """What somebody else did to them; empty: nothing."""
        found = []
        if os.pread(self.file, 4096, 0) != _CONTENTS or os.lseek(self.file, 0, os.SEEK_CUR) != _PLACE:
            found.append("the file was written or read")
        if self.near.recv(4096, socket.MSG_PEEK | socket.MSG_DONTWAIT) != _CONTENTS:
            found.append("what was said to the socket was read")
        with contextlib.suppress(BlockingIOError):
            found.append(f"the socket said {self.far.recv(4096, socket.MSG_DONTWAIT)!r}")
        own = {os.fstat(self.file).st_ino, os.fstat(self.near.fileno()).st_ino}
        for place in self.places:
            try:
                there = os.fstat(place).st_ino
            except OSError:
                found.append(f"{place} was closed")
            else:
                found += [] if there in own else [f"{place} is another file"]
        return "; ".join(found)

    def close(self) -> None:
        """Gives all of them back."""
        for place in self.places:
            with contextlib.suppress(OSError):
                os.close(place)
        os.close(self.file)
        self.near.close()
        self.far.close()
