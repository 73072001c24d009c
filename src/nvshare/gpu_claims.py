"""Which schedulers of this machine have which GPUs.

A scheduler that serves a GPU has a claim on it: a listening Unix socket without a file, whose name begins with the
GPU's bytes. The kernel lists such sockets for everybody (``/proc/net/unix``), says who listens, and ends them with
their process. The rest of the name is random. So nobody can take a place that another one needs: who tries has made one
claim more. Claims have an order, by their owners: the machine's scheduler, which is root's and answers where all
programs look first, goes before all others, and among the others whoever came first.

Containers with a network namespace of their own have their own names, and see none of these.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nvshare import paths
from nvshare.unix_sockets import listening_pid

# The library spells the same name (client/claims.c).
_PREFIX = "nvshare/gpu/"
_SOCKETS = Path("/proc/net/unix")
_LISTENS = 0x10000
"""The kernel's flag of a socket that listens, __SO_ACCEPTCON."""
_BACKLOG = 8
_NONCE_BYTES = 8
_ANSWER_SECONDS = 1.0
_PAUSE_SECONDS = 0.01
_ANSWER_BYTES = 4096
_CREDENTIALS = struct.Struct("3i")
_ALL_USERS = ["0", "0", "4294967295"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as the kernel shows it."""

    name: str
    """Of the socket, without the NUL."""
    device: bytes
    """The 16 bytes of the GPU's UUID, or of a MIG device's."""
    pid: int
    """Who listens; 0: in a pid namespace that is not seen from here, or it takes no more connections now."""
    uid: int | None
    """None: not known, as with a pid of 0 for the second reason."""
    is_machines: bool
    """The machine's scheduler: root's, at the system's run directory."""

    def whose(self) -> str:
        """The process and its user, for people."""
        if self.uid is None:
            return "of whom is not seen from here"
        return f"pid {self.pid or '?'} of user {self.uid}"

    def remedy(self) -> str:
        """How its end is brought about."""
        if self.pid:
            return f"kill {self.pid}"
        return f"sudo ss -xlp shows whose the socket @{self.name} is"


def listen(device: bytes) -> tuple[str, socket.socket]:
    """A new claim of this process: its name, and the socket that is the claim for as long as it is open."""
    name = f"{_PREFIX}{device.hex()}/{secrets.token_hex(_NONCE_BYTES)}"
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        claim.bind(f"\0{name}")
        claim.listen(_BACKLOG)
    except OSError:
        claim.close()
        raise
    return name, claim


def claims(wanted: Callable[[bytes], bool] = lambda _device: True) -> list[Claim]:
    """All claims that there are on the wanted GPUs now; those that may be this process's too.

    OSError: there are no descriptors to find it out.
    """
    return [claim for name, device in _listed() if wanted(device) and (claim := _look(name, device)) is not None]


def run_dir_of(claim: Claim) -> paths.RunDir | None:
    """The run directory that the claim's owner names; None: it does not. Takes up to a second."""
    with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        _connect(connection, f"\0{claim.name}")
        answer = connection.recv(_ANSWER_BYTES)
        if answer.startswith(b"/") and answer.endswith(b"\n"):
            return paths.RunDir(Path(os.fsdecode(answer[:-1])))
    return None


def _connect(connection: socket.socket, address: str) -> None:
    """Waits while its queue is full, since others ask, too. OSError: it is not there, or the time is up."""
    until = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            return connection.connect(address)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(_PAUSE_SECONDS)


def answer(run_dir: paths.RunDir) -> bytes:
    """What the owner of a claim tells whoever connects."""
    return os.fsencode(run_dir.root.absolute()) + b"\n"


def _listed() -> Iterator[tuple[str, bytes]]:
    try:
        lines = _SOCKETS.read_bytes().decode(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split(maxsplit=7)
        if len(fields) < 8 or not fields[7].startswith(f"@{_PREFIX}"):
            continue
        # A name may contain anything, also what looks like a line: whether it is there shows when it is asked.
        with suppress(ValueError):
            device = bytes.fromhex(fields[7][1 + len(_PREFIX) :].partition("/")[0])
            if int(fields[3], 16) & _LISTENS and len(device) == 16:
                yield fields[7][1:], device


def _look(name: str, device: bytes) -> Claim | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
        try:
            connection.connect(f"\0{name}")
        except BlockingIOError:
            return Claim(name, device, 0, None, is_machines=False)
        except OSError:
            return None
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _gid = _CREDENTIALS.unpack(raw)
    return Claim(name, device, pid, uid & 0xFFFFFFFF, is_machines=uid == 0 and _serves_the_machine(pid))


def _serves_the_machine(pid: int) -> bool:
    """Whether a process of root's is the one that answers at the system's run directory."""
    with suppress(OSError):
        # In a namespace of users root is anybody.
        if Path("/proc/self/uid_map").read_text().split() == _ALL_USERS:
            return bool(pid) and listening_pid(paths.RunDir(paths.SYSTEM_RUN_DIR).client_socket) == pid
    return False
