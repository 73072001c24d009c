"""The process at the other end of a connection is ended, and no other one."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nvshare.scheduler.pods import kill
from nvshare.scheduler.pods.peer import Peer, peer_of

CONNECT = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1)"
UNKNOWN_OPTION = 9999


@contextmanager
def connected(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket, Peer]]:
    """A process that is connected to us."""
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        with subprocess.Popen([sys.executable, "-c", CONNECT, str(path)]) as process:
            accepted, _ = listening.accept()
            with accepted:
                try:
                    yield process, accepted, peer_of(accepted)
                finally:
                    process.kill()


@pytest.mark.parametrize("option", [kill._SO_PEERPIDFD, UNKNOWN_OPTION])
def test_the_peer_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: int) -> None:
    """Also where the kernel has no SO_PEERPIDFD."""
    monkeypatch.setattr(kill, "_SO_PEERPIDFD", option)
    with connected(tmp_path) as (process, accepted, peer):
        kill.kill_peer(accepted, peer)
        assert process.wait() == -9


def test_a_process_that_began_later_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has got the pid of the one that connected."""
    monkeypatch.setattr(kill, "_SO_PEERPIDFD", UNKNOWN_OPTION)
    with connected(tmp_path) as (process, accepted, peer):
        with pytest.raises(ProcessLookupError):
            kill.kill_peer(accepted, replace(peer, accepted_at=0.0))
        assert process.poll() is None


@pytest.mark.parametrize("option", [kill._SO_PEERPIDFD, UNKNOWN_OPTION])
def test_a_peer_that_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: int) -> None:
    """An error that says so, and nothing else."""
    monkeypatch.setattr(kill, "_SO_PEERPIDFD", option)
    with connected(tmp_path) as (process, accepted, peer):
        process.kill()
        process.wait()
        with pytest.raises(OSError, match=r"."):
            kill.kill_peer(accepted, peer)
