"""Gangs with several members on one device: they come in, leave, and make room as one."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientRegistered,
    ContainerFound,
    DeviceSeen,
    PinnedMeasured,
    Policy,
    QuantumSet,
)
from nvshare.scheduler.core.lock.passing import passing
from nvshare.scheduler.core.records.client import Client, Part
from nvshare.scheduler.core.records.containers import Container
from nvshare.scheduler.core.records.gang import Gang
from nvshare.scheduler.core.records.memory import Memory
from nvshare.scheduler.core.settings import Unresponsive
from nvshare.scheduler.core.terms import Terms, WhenFull
from nvshare.scheduler.core.transitions import ClientState
from tests.scheduler.core.gangs.gang_node import Node
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table

EACH = ("a1", "a2", "b1")


def wide(node: Node) -> None:
    """A gang of two clients on device a and one on b holds, and a3 waits, which would fit beside it."""
    node.gang(*EACH)
    assert node.asks("a1") == "grant a1, grant a2, grant b1"
    node.comes("a3")
    assert node.asks("a3") == "waiters a1 1, waiters a2 1, waiters b1 1"


def test_a_gang_on_several_devices_leaves_for_one_that_fits() -> None:
    """It holds each device alone: that there is memory for a3 beside it does not let a3 in."""
    node = Node(Policy.AUTO)
    wide(node)
    assert node.wait(30.0) == "revoke a1, revoke a2, revoke b1"
    assert [node.releases(name) for name in EACH] == ["", "grant a3", ""]


def test_a_gang_that_hangs_is_killed_for_one_that_fits() -> None:
    """All of it that is on the device, and nobody elsewhere, where nobody waits."""
    node = Node(Policy.AUTO, Unresponsive.KILL)
    wide(node)
    node.wait(30.0)
    said = node.wait(40.0)
    assert said == "unresponsive a1, unresponsive a2, kill a1, kill a2, unresponsive b1"


def test_those_behind_leave_for_all_of_a_gang() -> None:
    """C, which waits behind A and B, leaves for B, which is not the first of the two."""
    table = Table(Policy.EXCLUSIVE)
    for name in "AB":
        table.comes(name, 5, 0)
        table.has(name, 5, 0)
    table.gang("AB")
    table.comes("C", 11)
    table.asks("C")
    assert table.asks("A") == ["allot A 4"]
    table.has("A", 5, 0)
    assert table.timer() == ["revoke C", "evict C 10"]
    table.releases("C")
    table.asks("C")
    table.has("A", 5, 4)
    assert table.has("C", 11, 10) == ["allot A 5"]
    assert table.has("A", 5, 5) == ["evict C 5"]
    assert table.has("C", 11, 5) == ["allot B 5"]
    assert table.has("B", 5, 5) == ["grant A", "grant B"]


def both_hold(size: float) -> Table:
    """A and B are one gang, with so many GiB each, and hold."""
    table = Table(Policy.EXCLUSIVE)
    for name in "AB":
        table.comes(name, size)
    table.gang("AB")
    assert table.asks("A") == ["grant A", "grant B"]
    return table


def test_a_member_that_grows_beyond_the_device_has_its_memory() -> None:
    """What both have is more than the device then, by less than the reserve: they go on one at a time."""
    table = both_hold(7.4)
    assert table.grows("A", 7.8) == ["revoke B", "evict B 7.2"]
    table.releases("B")
    assert table.has("B", 7.4, 7.2) == ["allot A 7.8 as 1"]
    assert table.has("A", 7.8, 7.8) == []


def test_a_member_that_pins_more_than_is_left_has_its_memory() -> None:
    """The same of memory that can't move."""
    table = both_hold(7.4)
    assert table.grows("A", 7.4, fixed=0.4)[:2] == ["revoke B", "evict B 7.2"]
    table.releases("B")
    assert table.has("B", 7.4, 7.2) == ["allot A 7.4 as 1"]


def test_a_gang_whose_memory_the_host_keeps_out_goes_one_at_a_time() -> None:
    """The host has no memory for all of C's: A and B fit the device, each beside what stays, but not both."""
    table = Table(Policy.EXCLUSIVE, host=12)
    for name in "AB":
        table.comes(name, 6, 0, arena=6)
        table.has(name, 6, 0)
    table.comes("C", 9, arena=0)
    table.gang("AB")
    assert table.asks("A") == ["allot A 6"]
    assert table.has("A", 6, 6) == ["grant A"]


def test_a_turn_is_worth_the_hand_over_to_all_of_a_gang() -> None:
    """At the assumed 20 GB/s 9 GiB take 0.48 s, of which a turn lasts 24 times as long: both of A and B move for it."""
    table = Table()
    table.feed(QuantumSet(1.0))
    for name in "AB":
        table.comes(name, 6, 0)
        table.has(name, 6, 0)
    table.gang("AB")
    table.comes("C", 12)
    table.asks("C")
    table.asks("A")
    assert table.core.snapshot(0.0)[0].quantum_left_seconds == pytest.approx(24 * 9 * GIB / 20e9)


def test_a_turn_is_worth_what_swaps_for_a_managed_waiter() -> None:
    """Of the holders' memory 9 GiB have to leave for M, and it pages in by itself."""
    table = Table()
    table.feed(QuantumSet(1.0))
    table.comes("C", 12)
    table.asks("C")
    table.feed(ClientRegistered(ord("M"), DEVICE, 12 * GIB, ClaimedState.IDLE))
    table.asks("M")
    assert table.core.snapshot(0.0)[0].quantum_left_seconds == pytest.approx(24 * 9 * GIB / 20e9)


def test_holders_leave_for_what_an_idle_member_pins() -> None:
    """B, whose gang has another device too and does not wait, asks for memory that only the holder A can leave."""
    table = Table()
    table.comes("A", 8)
    table.asks("A")
    table.comes("B", 7)
    table.feed(DeviceSeen("GPU-b", TOTAL * GIB))
    table.feed(ClientRegistered(ord("E"), "GPU-b", 0, ClaimedState.IDLE, backend=Backend.SWAP))
    table.gang("BE")
    assert table.grows("B", 7, fixed=0.5) == []
    assert table.timer() == ["revoke A", "evict A 7.5"]


def test_who_hangs_is_killed_for_all_of_a_gang() -> None:
    """Beside a1 and a2, which hang, there is room for a3 but not for both of its gang: as few as must go are killed."""
    node = Node(Policy.AUTO, Unresponsive.KILL)
    node.comes("a1", gib=6)
    node.comes("a2", gib=4)
    node.asks("a1")
    node.asks("a2")
    node.comes("a3", gib=4)
    node.comes("a4", gib=5)
    for name in ("a3", "a4"):
        node.joins(name, size=2)
    node.asks("a3")
    assert node.wait(30.0) == "revoke a1"
    assert node.wait(40.0) == "unresponsive a1, revoke a2"
    assert node.wait(50.0) == "unresponsive a2, kill a1"


def client(number: int, gib: int | None) -> Client:
    """One that waits."""
    memory = Memory(Backend.MANAGED, (gib or 0) * GIB, says_footprint=gib is not None)
    return Client(number, memory, Container(""), ClientState.WAITING, since=0.0, ticket=number)


def together(*members: Client) -> Part:
    """These are a gang."""
    return Part(Gang(1), is_wide=False, members=members)


def test_all_of_a_gang_count_for_who_passes_it() -> None:
    """Neither the gang nor the one behind it can come in beside the one before, so that the last may pass both."""
    gang = together(client(2, 3), client(3, 3))
    first, large, small = client(1, 11), client(4, 11), client(5, 1)
    assert passing([first, gang, large, small], first, 2 * GIB, 2 * GIB, 16 * GIB, even=True) == [small]


def test_nobody_passes_a_gang_of_which_a_footprint_is_unknown() -> None:
    """Nobody can say what is left beside it."""
    first, small = together(client(1, 11), client(2, None)), client(3, 1)
    assert passing([first, small], first, 2 * GIB, 2 * GIB, 16 * GIB, even=True) == []


def test_a_gang_holds_together_again_when_a_context_waits() -> None:
    """C's context takes the room that A and B need together, until it has to wait, since D would not fit beside it."""
    table = Table(pinned=1)
    for name, size in {"A": 6, "B": 5.75, "D": 12.25}.items():
        table.comes(name, size, 0)
        table.feed(PinnedMeasured(ord(name), GIB))
    table.gang("AB")
    table.now = 5.0
    table.comes("C")
    table.feed(ContainerFound(ord("C"), "c", Terms(when_full=WhenFull.WAIT)))
    for name, size in {"A": 6, "B": 5.75, "D": 12.25}.items():
        table.has(name, size, 0)
    table.asks("A")
    assert "grant A" in table.has("A", 6, 6)
    assert table.grows("C", 0) == ["revoke A"]
