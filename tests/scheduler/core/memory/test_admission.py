"""What may be allocated: the limits of each rule, just within and just beyond."""

from __future__ import annotations

from nvshare.scheduler.core.actions import Allot
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    DeviceSeen,
    GrowthRequested,
)
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, REST, TOTAL, Table


def granted(said: list[str], request: int = 1) -> bool:
    """Whether a growth was answered, and not refused."""
    return any(text.endswith(f"as {request}") for text in said)


def capacity(table: Table, name: str, size: float) -> float:
    """What a client is told that it could have at most, in GiB."""
    actions = table.core.handle(GrowthRequested(ord(name), 9, int(size * GIB), 0), table.now)
    return next(action.capacity_bytes for action in actions if isinstance(action, Allot)) / GIB


def test_what_a_program_is_told_that_it_could_have() -> None:
    """All but room for two contexts, which are not there yet; or what it has already."""
    table = Table()
    table.comes("A", 1)
    assert capacity(table, "A", 2) == TOTAL - 1 - 1.5
    table = Table()
    table.comes("A", 14.5)
    assert capacity(table, "A", 14.5) == 14.5


def test_what_the_gone_had_will_be_free() -> None:
    """B's growth waits for it."""
    table = Table()
    table.comes("A", 10)
    table.comes("B", 1)
    table.asks("B")
    table.feed(ClientGone(ord("A")))
    assert table.grows("B", 12) == []


def test_unmovable_memory_leaves_room_for_all_that_others_have() -> None:
    """B must fit beside it, alone."""
    table = Table()
    table.comes("B", 13)
    table.comes("A", 1)
    assert table.grows("A", 1, fixed=2.125) == ["refuse A 1"]
    assert "refuse A 2" not in table.grows("A", 1, fixed=2)


def test_memory_that_moves_takes_nothing_from_others() -> None:
    """B fits no more since another program is there; A may have more for all that."""
    table = Table()
    table.comes("B", 13)
    table.comes("A", 1)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 4 * GIB))
    assert granted(table.grows("A", 2))


def test_what_a_client_has_is_not_refused_to_it() -> None:
    """Both came back with more than the host takes; A asks for no more than it has."""
    table = Table(host=0)
    table.comes("A", 10, 5, arena=0)
    table.comes("B", 10, 10, arena=0)
    assert granted(table.grows("A", 10))


def test_what_a_client_has_does_not_keep_it_from_what_can_not_move() -> None:
    """A came back with more than it would be admitted now."""
    table = Table()
    table.comes("A", 13.9)
    table.comes("B", 0)
    assert table.grows("A", 14) == ["refuse A 1"]
    assert granted(table.grows("A", 13.9, fixed=0.5), 2)


def test_unmovable_memory_is_a_part_of_what_is_kept_for_contexts() -> None:
    """One GiB of it leaves half a GiB to be kept."""
    table = Table()
    table.comes("A", 1)
    assert granted(table.grows("A", 13.5, fixed=1))


def test_a_context_that_may_turn_out_small_leaves_more_to_be_kept() -> None:
    """If A's takes nothing a GiB and a half has to stay for others': nothing that is measured could help."""
    table = Table(pinned=1)
    table.comes("A", 1)
    assert table.grows("A", 14) == ["refuse A 1"]


def test_where_nobody_measures_no_context_will_turn_out_small() -> None:
    """What is assumed of A's and B's counts."""
    table = Table(pinned=1)
    table.measures = False
    table.feed(DeviceSeen(DEVICE, 0))
    for name in "AB":
        register = ClientRegistered(
            ord(name), DEVICE, GIB, ClaimedState.IDLE, backend=Backend.SWAP, device_bytes=TOTAL * GIB
        )
        table.feed(register)
        table.arenas[name] = 100 * GIB
        table.has(name, 1, 1)
    assert table.grows("A", 13.2) == ["refuse A 1"]


def test_host_memory_that_clients_have_counts() -> None:
    """Two GiB each and two that can be made: three each, so three can leave for either."""
    table = Table(host=6)
    table.comes("A", 10, arena=2)
    table.comes("B", 1, arena=2)
    assert "refuse B 1" not in table.grows("B", 8 - REST)
    assert "refuse B 2" in table.grows("B", 8.125)


def test_only_what_others_have_must_be_able_to_leave() -> None:
    """A is larger than the device now, and alone if it ever comes in: all of B leaves for it, and more there is not."""
    table = Table(host=4)
    table.comes("A", 12, arena=2)
    table.comes("B", 1, arena=2)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 5 * GIB))
    assert granted(table.grows("B", 1.5))


def test_host_memory_is_made_for_what_may_be_allocated() -> None:
    """A has one GiB of the ten that it may have without asking."""
    table = Table()
    table.comes("A", 1, arena=0)
    assert granted(table.grows("A", 10))
    table.has("A", 1, 1, slack=9)
    said = table.comes("B", 10, arena=0)
    assert "arena A 1" in said


def test_no_more_host_memory_is_made_than_there_may_be() -> None:
    """A GiB and a half for both."""
    table = Table(host=1.5)
    table.comes("A", 10, arena=0)
    said = table.comes("B", 10, 5, arena=0)
    assert [text for text in said if text.startswith("arena")] == ["arena A 0.75", "arena B 0.75"]
    assert table.core.host_memory().used_bytes == 1.5 * GIB


def test_what_may_still_be_used_counts_until_it_is_given_back() -> None:
    """A was admitted 13 GiB and has 9; what C wants comes when A goes by less."""
    table = Table()
    table.comes("A", 1)
    assert granted(table.grows("A", 12.25))
    table.has("A", 9, 9, slack=4)
    table.comes("C")
    before = table.orders["A"]
    assert table.grows("C", 0, fixed=2.5) == ["allot A 12.5"]
    assert table.has("A", 9, 9, order=before, slack=4) == []
    assert granted(table.has("A", 9, 9, slack=3.5))
