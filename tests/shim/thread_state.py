"""What the threads of a process do now, as the kernel tells it: how tests know that a call waits."""

from __future__ import annotations

import fcntl
import struct
import termios
from contextlib import suppress
from pathlib import Path
from typing import IO

from tests.polling import poll_until
from tests.shim.lock_server import Peer, readable


def fields(pid: int | str, thread: int) -> list[str]:
    """The thread's state and what follows in its stat file; empty when it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/task/{thread}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return []


def exists(pid: int | str, thread: int) -> bool:
    """It has not ended."""
    return bool(fields(pid, thread))


def asleep(pid: int | str, thread: int) -> bool:
    """It waits for something."""
    return fields(pid, thread)[:1] == ["S"]


def ticks(pid: int | str, thread: int) -> int:
    """The processor time that it has used, in ticks of mostly 10 ms."""
    found = fields(pid, thread)
    return int(found[11]) + int(found[12]) if found else 0


def client_threads(pid: int | str) -> list[int]:
    """The library's own threads."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            if (task / "comm").read_text(encoding="ascii") == "nvshare\n":
                found.append(int(task.name))
    return found


def sleeps(pid: int | str = "self") -> int:
    """How often the library's threads have slept: one that looks again and again sleeps in between."""
    slept = 0
    for thread in client_threads(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            status = Path(f"/proc/{pid}/task/{thread}/status").read_text(encoding="ascii")
            slept += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return slept


def client_waits(peer: Peer, pid: int | str = "self") -> None:
    """Waits until the client has read all that it was told and sleeps; then it has not answered.

    An answer is sent before the client sleeps, so a client that has not answered by now waits for something to happen.
    """

    def sleeps() -> bool:
        return all(asleep(pid, thread) for thread in client_threads(pid))

    # The second time sees those that were looked at before another one of them read something, and woke them.
    poll_until(lambda: not unread(peer) and sleeps() and sleeps(), "the client sleeps")
    assert not readable(peer), "the client did not wait"


def unread(peer: Peer) -> int:
    """Bytes that the client was sent and has not read."""
    (size,) = struct.unpack("i", fcntl.ioctl(peer.connection, termios.TIOCOUTQ, bytes(4)))
    return int(size)


def unread_in_pipe(end: IO[bytes]) -> int:
    """Bytes in the pipe that has this end."""
    (size,) = struct.unpack("i", fcntl.ioctl(end, termios.FIONREAD, bytes(4)))
    return int(size)
