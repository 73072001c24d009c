"""With a real memory cgroup around the scheduler."""

from __future__ import annotations

from collections.abc import Callable

from nvshare.paths import RunDir
from nvshare.scheduler.arenas.limits import MARGIN_BYTES
from tests.polling import poll_until
from tests.scheduler.cgroup import Cgroup
from tests.scheduler.swapper import Swapper
from tests.scheduler.wire_client import GIB, TIMEOUT_SECONDS, Scheduler

Serve = Callable[..., Scheduler]

MIB = 1 << 20
TOTAL = 4 * GIB
FOOTPRINT = 1792 * MIB
"""Two of these do not fit beside each other."""


def grow(scheduler: Scheduler) -> tuple[Swapper, Swapper]:
    """Two clients that need host memory; the second has just said so."""
    clients = [Swapper(scheduler.client()).register(total_bytes=TOTAL) for _ in range(2)]
    clients[0].grow(FOOTPRINT)
    clients[1].ask(FOOTPRINT)
    return clients[0], clients[1]


def test_a_size_beyond_the_limit(cgroup: Cgroup, run_dir: RunDir) -> None:
    """The scheduler says so and does not start."""
    cgroup.limit(GIB)
    scheduler = Scheduler(run_dir.root / "run", "--host-memory", "2GiB", cgroup=cgroup.folder)
    assert scheduler.process.wait(TIMEOUT_SECONDS) == 1
    assert "--host-memory 2GiB is more than the memory limit of this process's cgroup" in scheduler.log_file.read_text()


def test_what_the_limit_allows_is_used(cgroup: Cgroup, serve: Serve) -> None:
    """And paid for by the scheduler's cgroup, not by the client's."""
    cgroup.limit(6 * GIB)
    scheduler = serve("--host-memory", "100%", cgroup=cgroup.folder)
    _first, second = grow(scheduler)
    second.until(lambda: second.granted and second.arenas)
    assert cgroup.used() >= sum(second.arenas)
    assert cgroup.killed() == 0


def test_a_limit_that_was_lowered_kills_nobody(cgroup: Cgroup, serve: Serve) -> None:
    """The client that needs more is refused, with a log line."""
    cgroup.limit(6 * GIB)
    scheduler = serve("--host-memory", "100%", cgroup=cgroup.folder)
    cgroup.limit(512 * MIB)
    _first, second = grow(scheduler)
    second.until(lambda: second.refused)
    assert len(
        scheduler.logged("there is less host memory than arenas may have; allocations that need more are refused")
    )
    assert scheduler.process.poll() is None
    assert cgroup.killed() == 0
    poll_until(lambda: cgroup.used() < 512 * MIB - MARGIN_BYTES, "what had been filled is given back")
