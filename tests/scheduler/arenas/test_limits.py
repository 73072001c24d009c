"""How much memory this process may take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.scheduler.arenas.limits import MARGIN_BYTES, MemoryLimits

MIB = 1 << 20

Make = Callable[..., MemoryLimits]


@pytest.fixture
def machine(tmp_path: Path) -> Make:
    """Limits of a machine with these cgroups (``folder``: limit, used, cache; MiB) at the process's mount."""

    def make(
        version: int,
        path: str,
        root: str,
        available_mib: int,
        total_mib: int = 200_000,
        **folders: tuple[object, int, int],
    ) -> MemoryLimits:
        mounted = tmp_path / "mounted"
        names = {
            1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
            2: ("memory.max", "memory.current", "inactive_file"),
        }[version]
        for folder, (limit, used, cache) in folders.items():
            place = mounted / folder.replace("_", "/").removeprefix("top").lstrip("/")
            place.mkdir(parents=True, exist_ok=True)
            (place / names[0]).write_text(f"{limit * MIB if isinstance(limit, int) else limit}\n")
            (place / names[1]).write_text(f"{used * MIB}\n")
            (place / "memory.stat").write_text(f"anon 5\n{names[2]} {cache * MIB}\n")
        own = tmp_path / "proc" / "self"
        own.mkdir(parents=True)
        (tmp_path / "proc" / "meminfo").write_text(
            f"MemTotal: {total_mib << 10} kB\nMemAvailable:  {available_mib << 10} kB\n"
        )
        line = {1: f"4:memory:{path}\n3:cpuset:/\n0::/elsewhere\n", 2: f"0::{path}\n"}[version]
        (own / "cgroup").write_text(line)
        kind = {1: "cgroup - cgroup cgroup rw,memory", 2: "x - cgroup2 cgroup rw"}[version].split(" - ")[1]
        # The first is what ``mount -t tmpfs "" /`` makes: its source is an empty text.
        (own / "mountinfo").write_text(
            "23 1 0:20 / / rw - tmpfs  rw\n24 1 0:21 / /proc rw - proc proc rw\n"
            f"30 24 0:26 {root} {mounted} rw shared:4 - {kind}\n"
        )
        return MemoryLimits(tmp_path / "proc")

    return make


def test_the_limit_of_a_container(machine: Make) -> None:
    """A cgroup namespace of its own: its cgroup is the root of what it sees. Cache counts as free."""
    limits = machine(2, "/", "/", 100_000, top=(1000, 300, 50))
    assert limits.cgroup_bytes() == 1000 * MIB - MARGIN_BYTES
    assert limits.room_bytes() == 750 * MIB - MARGIN_BYTES


def test_the_machine_may_have_less_than_the_limits_allow(machine: Make) -> None:
    """Its cgroup may have 700 MiB more, and there are no more than 400 beyond what is left to the machine."""
    limits = machine(2, "/", "/", 2048 + 400, top=(1000, 300, 0))
    assert limits.room_bytes() == 400 * MIB


@pytest.mark.parametrize(
    ("total_mib", "available_mib", "left_mib"),
    [(200_000, 5000, 2048), (20_480, 5000, 2048), (8000, 5000, 800), (1000, 500, 100)],
)
def test_the_machine_keeps_something(machine: Make, total_mib: int, available_mib: int, left_mib: int) -> None:
    """2 GiB, or the tenth of a small one."""
    limits = machine(2, "/", "/", available_mib, total_mib)
    assert limits.available_bytes() == limits.room_bytes() == (available_mib - left_mib) * MIB


def test_less_is_left_than_the_machine_keeps(machine: Make) -> None:
    """Nothing can be taken then; what is lacking counts as taken already."""
    limits = machine(2, "/", "/", 48)
    assert limits.available_bytes() == 0
    assert limits.room_bytes() == -2000 * MIB


def test_beyond_what_slows_it_down_nothing_is_taken(machine: Make, tmp_path: Path) -> None:
    """memory.high, which is lower than memory.max."""
    limits = machine(2, "/", "/", 100_000, top=(1000, 300, 0))
    (tmp_path / "mounted" / "memory.high").write_text(f"{500 * MIB}\n")
    assert limits.cgroup_bytes() == 500 * MIB - MARGIN_BYTES
    assert limits.room_bytes() == 200 * MIB - MARGIN_BYTES


def test_the_tightest_of_the_limits_around_counts(machine: Make) -> None:
    """A service in a slice; where no limit is, what the machine has left counts."""
    limits = machine(2, "/a/b", "/", 100_000, top=("max", 9000, 0), top_a=(2000, 1900, 0), top_a_b=("max", 10, 0))
    assert limits.cgroup_bytes() == 2000 * MIB - MARGIN_BYTES
    assert limits.room_bytes() == 100 * MIB - MARGIN_BYTES


def test_no_limit(machine: Make) -> None:
    """Then only the machine's memory counts."""
    limits = machine(2, "/", "/", 2548, top=("max", 300, 0))
    assert limits.cgroup_bytes() is None
    assert limits.available_bytes() == limits.room_bytes() == 500 * MIB


@pytest.mark.parametrize(
    ("path", "root"), [("/kubepods/x", "/kubepods/x"), ("/kubepods/x", "/"), ("/", "/")], ids=["bound", "hidden", "own"]
)
def test_version_1(machine: Make, path: str, root: str) -> None:
    """The path is the host's, and the mount may show only the container's part of it."""
    limits = machine(1, path, root, 100_000, top=(1000, 300, 0))
    assert limits.cgroup_bytes() == 1000 * MIB - MARGIN_BYTES
    assert limits.room_bytes() == 700 * MIB - MARGIN_BYTES


def test_this_machine() -> None:
    """Whatever it is like, something is known of it."""
    assert MemoryLimits().available_bytes() > 0
