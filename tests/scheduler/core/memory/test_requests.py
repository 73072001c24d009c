"""What a memory request keeps on the device. That has 15 GiB beside the reserve, 1.5 of them for contexts."""

from __future__ import annotations

from nvshare.scheduler.core.events import (
    DeviceSeen,
)
from tests.scheduler.core.memory.requesting import MOST, enters, is_granted, kept
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table


def around(size: float) -> Table:
    """K is idle and keeps so much of its 5 GiB; A holds with 6, B waits with 8, 4 of them in: all that there is."""
    table = Table()
    for name, amount, resident in (("K", 5, 5), ("B", 8, 0), ("A", 6, 6)):
        table.comes(name, amount, resident)
        if name == "K":
            enters(table, name, size)
        table.now += 1
    assert table.asks("A") == ["grant A"]
    assert table.asks("B") == ["allot B 4"]
    return table


def test_nothing_of_it_leaves_for_a_waiter() -> None:
    """B lacks 4 GiB: K has been idle for longer than anybody, and stays; A leaves when its quantum is over."""
    table = around(5)
    assert table.has("B", 8, 4) == []
    assert table.timer() == ["revoke A", "evict A 2"]
    table.releases("A")
    assert table.has("A", 6, 2) == ["allot B 8"]
    assert table.has("B", 8, 8) == ["grant B"]
    assert "K" not in table.orders


def test_what_is_above_it_leaves() -> None:
    """K keeps 3 of its 5 GiB; the other 2 leave, and nothing else can while A holds."""
    table = around(3)
    assert table.has("B", 8, 4) == ["evict K 3"]
    assert table.has("K", 5, 3) == ["allot B 6"]
    table.has("B", 8, 6)
    assert in_time(table) == ["revoke A", "evict A 4"]


def in_time(table: Table) -> list[str]:
    """What is said next if nothing happens."""
    while not (said := table.timer()):
        pass
    return said


def beside(*sizes: tuple[str, float]) -> Table:
    """K keeps 5 GiB and is idle; others come after it, with all their memory there."""
    table = Table()
    table.comes("K", 5)
    enters(table, "K", 5)
    for name, size in sizes:
        table.now += 1
        table.comes(name, size)
    return table


def test_nothing_of_it_leaves_for_a_holder_that_grows() -> None:
    """A wants 4 GiB more than there are: B leaves, which was used later than K."""
    table = beside(("A", 4), ("B", 6))
    table.asks("A")
    assert table.grows("A", 8) == ["evict B 2"]
    assert is_granted(table.has("B", 6, 2), "A", 1)


def test_nothing_of_it_leaves_for_programs_that_are_no_clients() -> None:
    """They took one GiB: B makes room for that."""
    table = beside(("A", 4), ("B", 6))
    table.asks("A")
    assert table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 1 * GIB)) == ["evict B 5"]
    assert kept(table, "K") == 5


def test_what_programs_that_are_no_clients_leave_no_room_for_goes() -> None:
    """They took 6 GiB. A's 8.5 must be able to come in all the same, so that K keeps what is left beside them."""
    table = Table()
    table.comes("K", 5)
    enters(table, "K", 5)
    table.comes("A", 8.5, 0)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 3 * GIB))
    assert kept(table, "K") == MOST - 3 - 8.5
    assert table.asks("A") == ["allot A 7"]
    assert table.has("A", 8.5, 7) == ["evict K 3.5"]


def test_a_holder_that_leaves_keeps_it_too() -> None:
    """K has 9 GiB and keeps 8: when its quantum is over one leaves for A, and for the rest A has to wait for B."""
    table = Table()
    table.comes("K", 1)
    enters(table, "K", 8)
    for name, size in (("A", 5), ("B", 3)):
        table.comes(name, size, 0)
        table.has(name, size, 0)
    table.asks("K")
    table.grows("K", 9)
    table.has("K", 9, 9)
    table.asks("B")
    assert table.has("B", 3, 3) == ["grant B"]
    assert "evict K 9" in table.asks("A")
    assert table.has("K", 9, 9) == ["allot A 3"]
    assert table.has("A", 5, 3) == []
    assert in_time(table) == ["revoke K", "evict K 8"]
    table.releases("K")
    assert table.has("K", 9, 8) == ["allot A 4", "revoke B", "evict B 2"]


def test_among_its_own_it_moves() -> None:
    """X and Y are of one container with a request for 10 GiB; each has 9, and Y leaves for X as far as that lacks."""
    table = Table()
    for name, size in (("Y", 9), ("X", 1)):
        table.comes(name, size)
        enters(table, name, 10, "c")
        table.now += 1
    table.comes("A", 3.5)
    table.grows("X", 9)
    table.has("X", 9, 1, order=table.orders["X"])
    assert kept(table, "X") == kept(table, "Y") == 10
    assert table.asks("X") == ["evict Y 2.5"]
    assert table.has("Y", 9, 2.5) == ["allot X 9"]
    assert table.has("X", 9, 9) == ["grant X"]


def test_two_of_a_container_keep_together() -> None:
    """X and Y have 3 GiB each and keep 5 together: of the one that was used less recently one GiB leaves."""
    table = Table()
    table.comes("B", 3, 0)
    for name in "XY":
        table.comes(name, 3)
        enters(table, name, 5, "c")
        table.now += 1
    table.comes("A", 8.5)
    assert table.asks("A") == ["grant A"]
    assert table.asks("B") == ["allot B 0.5"]
    assert table.has("B", 3, 0.5) == ["evict X 2"]
    assert table.has("X", 3, 2) == ["allot B 1.5"]
    assert table.has("B", 3, 1.5) == []


def test_among_its_own_it_moves_for_a_growth() -> None:
    """L asks for more than fits beside an idle one of its container, and holds by the time that can be looked at."""
    table = Table()
    for name, size, arena in (("K", 2, 0), ("L", 1, 1)):
        table.comes(name, size, arena=arena)
        enters(table, name, 3, "both")
        table.now += 1
    table.grows("L", 13.5)
    assert table.asks("L") == ["grant L"]
    assert "evict K 1.5" in table.arena("K", 1)
    assert is_granted(table.has("K", 2, 1.5), "L", 1)


def test_among_its_own_it_moves_for_what_can_not() -> None:
    """The same of one that is idle, for memory that can't move: that is the first part of what is kept."""
    table = Table()
    for name, size in (("K", 8), ("L", 6)):
        table.comes(name, size)
        enters(table, name, 14, "both")
        table.now += 1
    assert table.grows("L", 6, fixed=2) == ["evict K 7"]
    assert is_granted(table.has("K", 8, 7), "L", 1)
