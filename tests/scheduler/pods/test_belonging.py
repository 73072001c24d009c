"""Which processes may see each other's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvshare.scheduler.pods.belonging import belonging_of
from nvshare.scheduler.pods.peer import Peer

A, B = "a" * 64, "b" * 64


def belonging(proc: Path, cgroup: str, uid: int = 1000, pids: str = "7") -> str:
    """Of a process in that cgroup."""
    (proc / "7").mkdir(exist_ok=True)
    (proc / "7" / "cgroup").write_text(cgroup, errors="surrogateescape")
    (proc / "7" / "status").write_text(f"Name:\tx\nNSpid:\t{pids}\nUid:\t{uid}\n")
    return belonging_of(Peer(7, uid, None), proc)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"0::/kubepods/burstable/pod1/{A}\n", f"0::/kubepods/burstable/pod1/{A}/below/{B}\n"),
        (f"0::/system.slice/docker-{A}.scope\n", f"0::/system.slice/docker-{A}.scope/init\n"),
        ("0::/user.slice/one.scope\n", "0::/user.slice/two.scope\n"),
        (f"0::/kubepods/burstable/pod1/{A}\n", f"0::/kubepods/burstable/pod1/{A}/no-text-\udcff\n"),
    ],
)
def test_they_belong_together(tmp_path: Path, first: str, second: str) -> None:
    """Wherever they are within one container; outside of any, wherever they are."""
    assert belonging(tmp_path, first) == belonging(tmp_path, second) != ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"0::/kubepods/burstable/pod1/{A}\n", f"0::/kubepods/burstable/pod1/{B}\n"),
        (f"0::/kubepods/burstable/pod1/{A}\n", f"0::/user.slice/user-1000.slice/pod1/{A}\n"),
        (f"0::/system.slice/docker-{A}.scope\n", "0::/user.slice/one.scope\n"),
    ],
)
def test_they_do_not(tmp_path: Path, first: str, second: str) -> None:
    """Two containers; a folder that a user calls as a container elsewhere; a container and what is in none."""
    assert belonging(tmp_path, first) != belonging(tmp_path, second)


def test_users_outside_of_containers(tmp_path: Path) -> None:
    """There two users do not; in a container their numbers mean nothing."""
    assert belonging(tmp_path, "0::/x\n", 1) != belonging(tmp_path, "0::/x\n", 2)
    assert belonging(tmp_path, f"0::/{A}\n", 1) == belonging(tmp_path, f"0::/{A}\n", 2)


def test_pid_namespaces(tmp_path: Path) -> None:
    """Who has pids of its own, in no container that is known, belongs to those of its own cgroup."""
    outside = belonging(tmp_path, "0::/x\n")
    assert outside != belonging(tmp_path, "0::/x\n", pids="7 1") != belonging(tmp_path, "0::/y\n", pids="7 1")


def test_who_can_not_be_seen(tmp_path: Path) -> None:
    """Nothing is said of a process of which the kernel says nothing."""
    assert belonging_of(Peer(0, 0, None), tmp_path) == ""
    assert belonging_of(Peer(8, 0, None), tmp_path) == ""
