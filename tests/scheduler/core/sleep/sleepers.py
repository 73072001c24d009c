"""A core with clients that can sleep, fed by hand."""

from __future__ import annotations

from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import (
    DeviceSeen,
    PinnedMeasured,
    Policy,
)
from nvshare.scheduler.core.records.process import MOST_PATIENCE
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.sleep_events import FellAsleep, SleepOffered, Woke
from nvshare.scheduler.core.snapshot import ClientSnapshot
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table

MIB = 1 << 20
OTHER = "GPU-b"


def sleepers(
    names: str = "",
    *,
    context: float = 0,
    after: float | None = None,
    reserve: float = 1,
    host: float = 1000,
    file: float = 0,
    exclusive: bool = False,
) -> Table:
    """Clients that can sleep, each idle with a gibibyte; the process of each has its number."""
    table = Table(pinned=context)
    table.core = Core(
        Settings(
            policy=Policy.EXCLUSIVE if exclusive else Policy.AUTO,
            quantum_seconds=30.0,
            assumed_pinned_bytes=int(context * GIB),
            reserve_bytes=int(reserve * GIB),
            host_bytes=int(host * GIB),
            file_bytes=int(file * GIB),
            sleep_after_seconds=after,
        )
    )
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB))
    for name in names:
        comes(table, name)
    return table


def full() -> Table:
    """Four that have nothing but contexts, of a GiB each; a quarter of one is left, the reserve included."""
    table = sleepers(context=1)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 12 * GIB - GIB // 4))
    for name in "ABCD":
        comes(table, name, 0)
        table.grows(name, 0)
        table.has(name, 0, 0)
        table.feed(PinnedMeasured(ord(name), GIB))
    return table


def comes(table: Table, name: str, size: float = 1) -> None:
    table.comes(name, size)
    table.feed(PinnedMeasured(ord(name), pinned(table, name)))
    table.feed(SleepOffered(ord(name), ord(name)))


def pinned(table: Table, name: str) -> int:
    return shown(table, name).pinned_bytes


def shown(table: Table, name: str) -> ClientSnapshot:
    return table.core.client(ord(name), table.now)


def falls_asleep(table: Table, name: str) -> list[str]:
    """It leaves as it was told, and is put to sleep."""
    assert f"sleep {name}" in table.has(name, 1, 0)
    return table.feed(FellAsleep(ord(name)))


def wakes(table: Table, name: str) -> None:
    """It is there again, and so is its context, as NVML shows."""
    table.feed(Woke(ord(name)))
    table.has(name, 1, 0)
    table.feed(PinnedMeasured(ord(name), 0))


def leaves(table: Table, name: str) -> None:
    """Time passes until it leaves, if it has anything there, and is put to sleep."""
    for _ in range(MOST_PATIENCE + 10):
        said = table.timer()
        if said == [f"evict {name} 0"]:
            said = table.has(name, 1, 0)
        if said == [f"sleep {name}"]:
            return
    raise AssertionError("it stays awake")
