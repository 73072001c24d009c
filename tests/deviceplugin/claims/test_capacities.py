"""What claims may have follows what the scheduler tells, slowly."""

from __future__ import annotations

from nvshare.admin import admin_pb2
from nvshare.deviceplugin.claims.capacities import Capacities
from nvshare.deviceplugin.settled import SETTLED_SECONDS

GIB = 1 << 30
SHARES = {"GPU-a": 10}


class Bench:
    """A scheduler's status and a clock, which a test sets."""

    def __init__(self, overcommit: float = 1.0) -> None:
        self.now = 100.0
        self.status: admin_pb2.Status | None = None
        self.capacities = Capacities(lambda: self.status, overcommit, lambda: self.now)

    def look(self, held: int = 0, *, total: int = 21, foreign: int = 0, host: int = 0, used: bool = False) -> int:
        """What claims may have of the GPU, in GiB: 1 GiB is the reserve, a quarter at the most is for contexts."""
        ids = [f"GPU-a__{ordinal}" for ordinal in range(1, held + 1)]
        device = admin_pb2.Device(
            uuid="GPU-a",
            total_bytes=total * GIB,
            foreign_bytes=foreign * GIB,
            reserve_bytes=GIB if used else 0,
            swap_reserve_bytes=GIB,
            assumed_context_bytes=GIB // 2,
            allocations=[
                admin_pb2.Allocation(virtual_device_ids=ids),
                admin_pb2.Allocation(virtual_device_ids=["GPU-a__9"], claim="team/share", shares=3),
            ],
        )
        self.status = admin_pb2.Status(devices=[device], knows_allocations=True, host_memory_bytes=host * GIB)
        return self.again()

    def again(self) -> int:
        self.capacities.bring_up_to_date(SHARES)
        found = self.capacities.of("GPU-a")
        return 0 if found is None else found.memory_bytes // GIB


def test_not_known_before_it_is_told() -> None:
    """Nor by a scheduler that has not heard kubelet."""
    bench = Bench()
    bench.again()
    bench.status = admin_pb2.Status(devices=[admin_pb2.Device(uuid="GPU-a", total_bytes=GIB)])
    bench.again()
    assert not bench.capacities.known
    assert bench.capacities.own_bytes("GPU-a") is None
    assert bench.look() == 15
    assert bench.capacities.known


def test_the_reserve_is_left_out_before_anything_swaps() -> None:
    """The first client changes nothing."""
    bench = Bench()
    assert bench.look() == bench.look(used=True) == 15


def test_a_kubelet_that_has_just_begun() -> None:
    """It tells of no containers at first: what pods of the plugin have stays taken off."""
    bench = Bench()
    before = bench.look(held=5)
    bench.now += SETTLED_SECONDS / 2
    assert bench.look(held=0) == before
    bench.now += SETTLED_SECONDS / 2
    assert bench.look(held=5) == before
    bench.now += SETTLED_SECONDS
    bench.look(held=0)
    bench.now += SETTLED_SECONDS
    assert bench.look(held=0) == 15


def test_what_others_take() -> None:
    """Memory of programs that are none of ours is no more to be had, once it has been gone for a while."""
    bench = Bench()
    assert bench.look() == 15
    assert bench.look(foreign=4) == 15
    bench.now += SETTLED_SECONDS
    assert bench.look(foreign=4) == 11


def test_a_scheduler_that_is_away() -> None:
    """What it said last counts."""
    bench = Bench()
    bench.look()
    bench.status = None
    bench.now += 10 * SETTLED_SECONDS
    assert bench.again() == 15


def test_overcommitted() -> None:
    """As far as host memory goes."""
    assert Bench(2).look(host=100) == 30
    assert Bench(2).look(host=5) == 20
