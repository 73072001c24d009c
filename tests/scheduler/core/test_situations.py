"""Several rules at once: what happens to clients that swap in the situations that they come into."""

from __future__ import annotations

from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    FootprintChanged,
    HostMemorySet,
    MemoryFreed,
    Policy,
    QuantumSet,
    ResidencyReported,
)
from nvshare.scheduler.core.lock.blocking import QUANTUM_STALLS
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, REST, TOTAL, Table
from tests.scheduler.core.memory.test_residency import two_that_do_not_fit

OTHER = "GPU-b"


def test_an_arena_that_comes_late() -> None:
    """C is idle and has nowhere to go; by what it gets it leaves, which it registers for that."""
    table = Table()
    table.comes("C", 10, arena=0)
    assert "arena C 1" in table.comes("B", 10, 5)
    table.has("B", 10, 5)
    assert table.asks("B") == []
    assert table.arena("C", 1) == [f"evict C {9 + REST:g}", "arena C 1"]
    assert table.has("C", 10, 9) == [f"allot B {6 - REST:g}"]
    assert table.arena("C", 9) == ["evict C 5"]
    assert table.has("C", 10, 5) == ["allot B 10"]
    assert table.has("B", 10, 10) == ["grant B"]


def test_host_memory_that_one_device_frees_is_the_others() -> None:
    """Z had the host memory that B's growth needs; B hears of it when Z's is free, whatever device Z was on."""
    table = Table(host=4)
    table.feed(DeviceSeen(OTHER, TOTAL * GIB))
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB))
    table.feed(ClientRegistered(90, OTHER, 14 * GIB, ClaimedState.IDLE, backend=Backend.SWAP))
    table.feed(ResidencyReported(90, 0, 14 * GIB, 14 * GIB, 0, 14 * GIB, 4 * GIB, 4 * GIB))
    table.comes("A", 10, arena=0)
    table.comes("B", 4, arena=0)
    assert table.grows("B", 6) == ["refuse B 1"]
    table.feed(ClientGone(90))
    assert table.grows("B", 6) == []
    assert sorted(table.feed(MemoryFreed(90))) == ["arena A 1", "arena B 1"]


def test_the_next_one_comes_in_while_the_holder_runs() -> None:
    """Under exclusive too: both fit, so B is wholly there before A leaves, and the hand-over costs nothing."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("A", 7)
    table.asks("A")
    table.comes("B", 7, 0)
    assert table.asks("B") == ["allot B 7"]
    assert table.core.deadline() == 10.0
    assert table.has("B", 7, 7) == []
    assert table.core.deadline() == 30.0
    table.now = 5
    assert table.releases("A") == ["grant B"]
    traffic = table.core.snapshot(5.0)[0].traffic
    assert (traffic.prefetched, traffic.stalls, traffic.stall_seconds) == (1, 1, 0.0)


def test_the_next_one_begins_with_what_room_there_is() -> None:
    """A leaves B five GiB; the other five come with A's leaving, and the device waits for these alone."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("A", 10)
    table.asks("A")
    table.comes("B", 10, 0)
    table.has("B", 10, 0)
    assert table.orders["B"] == 1
    table.asks("B")
    table.has("B", 10, 5)
    assert table.timer() == ["revoke A", "evict A 5"]


def test_quantum_is_not_stretched_for_what_comes_in_beside_the_holder() -> None:
    """Half a second: as little as that is enough while nothing has to move at the hand-over."""
    table = Table(Policy.EXCLUSIVE)
    table.feed(QuantumSet(0.5))
    table.comes("A", 7)
    table.asks("A")
    table.comes("B", 7, 0)
    table.asks("B")
    table.has("B", 7, 7)
    assert table.core.deadline() == 0.5


def test_quantum_is_stretched_for_what_moves_when_the_holder_leaves() -> None:
    """Five of B's ten GiB: at 20 GB/s that is 0.27 s, and a quantum is QUANTUM_STALLS times that."""
    table = Table(Policy.EXCLUSIVE)
    table.feed(QuantumSet(0.5))
    table.comes("A", 10)
    table.asks("A")
    table.comes("B", 10, 5)
    table.asks("B")
    deadline = table.core.deadline()
    assert deadline is not None
    assert abs(deadline - QUANTUM_STALLS * 5 * GIB / 20e9) < 1e-6


def obey(table: Table, said: list[str], sizes: dict[str, float]) -> list[str]:
    """Every client does what it is told, until there is nothing to do; all that was said."""
    everything = list(said)
    while said:
        verb, name, *rest = said.pop(0).split()
        if verb in ("allot", "evict"):
            more = table.has(name, sizes[name], min(sizes[name], float(rest[0])))
            everything += more
            said += more
    return everything


def test_a_waiter_that_is_partly_in_and_is_overtaken() -> None:
    """B can't fit while foreign memory is there; C has its turn with what B leaves, and B comes in again later."""
    table = Table()
    sizes = {"A": 2.0, "B": 13.0, "C": 6.0}
    table.comes("A", 2)
    obey(table, table.comes("B", 13, 6), sizes)
    table.asks("A")
    obey(table, table.comes("C", 6, 0), sizes)
    said = obey(table, table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 4 * GIB)), sizes)
    assert "grant B" not in said + obey(table, table.asks("B"), sizes)
    assert "grant C" in obey(table, table.asks("C"), sizes)
    said = obey(table, table.feed(DeviceSeen(DEVICE, TOTAL * GIB)), sizes)
    assert "grant B" not in said + obey(table, table.releases("A"), sizes)
    assert "grant B" in obey(table, table.releases("C"), sizes)


def test_idle_clients_leave_before_waiters() -> None:
    """D idles since a moment ago, E waits behind B for long: E leaves what D has not."""
    table = Table(Policy.EXCLUSIVE)
    for name in "ABE":
        table.comes(name, 3)
        table.asks(name)
    table.now = 9
    table.comes("D", 3)
    assert table.has("B", 10, 3) == ["allot B 3", "allot B 6", "evict D 0"]
    assert table.has("D", 3, 0) == ["allot B 9", "evict E 2"]


def test_holders_leave_and_what_they_have_with_them_for_foreign_memory() -> None:
    """A and B hold; somebody else took 4 GiB: B is asked to leave, and at once told how much must go."""
    table = Table()
    table.comes("A", 7)
    table.comes("B", 7)
    assert table.asks("A") == ["grant A"]
    assert table.asks("B") == ["grant B"]
    said = table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 4 * GIB))
    assert said[0] == "revoke B"
    assert said[-1] == "evict B 4"


def test_a_holder_that_grows_pushes_out_the_waiter() -> None:
    """B is wholly in beside A, and waits under exclusive; A wants what only B has."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("A", 7)
    table.asks("A")
    table.comes("B", 7)
    table.asks("B")
    said = table.grows("A", 10)
    assert said[-1] == "evict B 5"
    said = table.has("B", 7, 5)
    assert "allot A 10 as 1" in said


def test_a_managed_holder_leaves_for_one_that_swaps_and_the_other_way_round() -> None:
    """M's pages give way when it has released; B leaves what M needs and only then M is granted."""
    table = Table()
    table.comes("B", 10)
    table.feed(ClientRegistered(ord("M"), DEVICE, 8 * GIB, ClaimedState.IDLE, backend=Backend.MANAGED))
    assert table.asks("B") == ["grant B"]
    assert table.asks("M") == []
    assert table.timer() == ["revoke B", "evict B 7"]
    assert table.releases("B") == []
    assert table.has("B", 10, 7) == ["grant M"]
    assert table.asks("B") == []
    assert table.feed(FootprintChanged(ord("M"), 9 * GIB)) == ["evict B 6"]
    table.has("B", 10, 6)
    assert table.timer() == ["revoke M"]
    assert table.releases("M") == ["allot B 10"]
    assert table.has("B", 10, 10) == ["grant B"]


def test_less_host_memory_takes_nothing_away() -> None:
    """What was made stays; nothing more is made."""
    table = Table()
    table.comes("A", 10, arena=0)
    assert "arena A 1" in table.comes("B", 10, 5, arena=0)
    table.feed(HostMemorySet(0))
    assert table.arena("A", 1) == []
    assert table.core.host_memory().used_bytes >= GIB


def test_off_is_auto_where_memory_swaps() -> None:
    """What can't be in at once takes turns."""
    table = two_that_do_not_fit(Policy.OFF)
    assert table.timer()[0] == "revoke A"


def test_a_little_growth_makes_a_holder_leave_where_contexts_are_assumed() -> None:
    """A quarter of a GiB is lacking, less than the slack and than what contexts are assumed to take; A waits for it."""
    table = Table(pinned=1)
    for name in "AB":
        table.comes(name, 5)
        assert table.asks(name) == [f"grant {name}"]
    lacking = table.core.snapshot(table.now)[0]
    left = (lacking.total_bytes - lacking.reserve_bytes) / GIB - 2
    assert "revoke B" in table.grows("A", left - 5 + 0.25)


def test_what_is_shown_as_coming_in_does_so() -> None:
    """Half a chunk has no room to come into: nobody is shown a transfer that stands still until the holder leaves."""

    def coming(table: Table) -> float:
        swap = table.core.client(ord("B"), table.now).swap
        assert swap is not None
        return swap.in_bytes / GIB

    half = 1 / 32
    table = two_that_do_not_fit()
    table.has("B", 10, 4)
    assert coming(table) == 1
    table.has("B", 10, 5 - half)
    assert coming(table) == 0
    table.releases("A")
    table.has("A", 10, 0)
    table.has("B", 10, 10 - half)
    assert coming(table) == half


def test_a_holder_that_used_what_is_taken_back() -> None:
    """It can't go by that: it is told what it has, so that the rest of what it might have used is free for others."""
    table = Table()
    table.comes("A", 4)
    table.asks("A")
    assert table.grows("A", 12) == ["allot A 12.75 as 1"]
    table.has("A", 12, 12)
    table.has("A", 4, 4, slack=8)
    table.comes("C", 2)
    table.comes("B", 0)
    assert table.asks("B") == ["grant B"]
    before = table.orders["A"]
    assert table.grows("B", 8) == ["evict A 5"]
    assert table.has("A", 6, 6, order=before, slack=6) == ["allot A 6"]
    assert table.has("A", 6, 6) == ["evict C 1"]
    assert "allot B 8 as 1" in table.has("C", 2, 1)


def test_host_memory_that_is_being_made_is_there_for_the_growth_that_waits() -> None:
    """It is neither had nor left, and nobody is refused for that."""
    table = Table(host=2)
    table.comes("A", 10, arena=0)
    table.comes("B", 0, arena=0)
    assert sorted(table.grows("B", 6 - REST)) == ["arena A 1", "arena B 1"]
    assert table.has("A", 10, 10) == []
    table.arena("A", 1)
    assert any(said.endswith("as 1") for said in table.arena("B", 1))


def test_what_a_client_comes_with_has_not_moved() -> None:
    """Six of its ten GiB were copied out under the scheduler before."""
    table = Table()
    table.comes("B", 10, 4)
    assert table.core.snapshot(0.0)[0].traffic.out_bytes == 0


def test_who_prepares_host_memory_tells_nothing_of_the_link() -> None:
    """B leaves slowly, as it registers what it leaves to."""
    table = Table()
    table.comes("B", 10)
    for chunk in range(1, 9):
        table.now += 0.05
        table.arenas["B"] += GIB
        table.has("B", 10, 10 - chunk / 16)
    traffic = table.core.snapshot(table.now)[0].traffic
    assert traffic.out_bytes == GIB / 2
    assert traffic.out_bytes_per_second == 0


def test_who_waits_for_room_tells_nothing_of_the_link() -> None:
    """B comes in as fast as D leaves."""
    table = Table(Policy.EXCLUSIVE)
    table.comes("B", 10, 0)
    table.has("B", 10, 0)
    table.comes("A", 5)
    table.asks("A")
    table.comes("D", 10)
    table.asks("B")
    for chunk in range(1, 9):
        table.now += 0.02
        table.has("D", 10, 10 - chunk / 16)
        table.now += 0.02
        table.has("B", 10, chunk / 16)
    traffic = table.core.snapshot(table.now)[0].traffic
    assert traffic.in_bytes == GIB / 2
    assert traffic.in_bytes_per_second == 0
