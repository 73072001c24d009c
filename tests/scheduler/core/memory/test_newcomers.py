"""Contexts on a device that is full: what is only assumed, or was given on top, makes a newcomer wait, not fail."""

from __future__ import annotations

from nvshare.scheduler.core.events import Backend, PinnedAssumed, PinnedMeasured, ResidencyReported
from nvshare.scheduler.core.records.memory import CONTEXT_KNOWN_SECONDS, CONTEXT_SECONDS, Memory
from tests.scheduler.core.memory.swap_transcript import GIB, Table


def three_come(*, size: float = 13.4) -> Table:
    """A is idle with 13.4 GiB. B and C made their contexts beside it; if these take 1 GiB each, D's does not fit."""
    table = Table(pinned=1)
    table.comes("A", size)
    table.now = CONTEXT_SECONDS
    table.feed(PinnedMeasured(ord("A"), GIB // 2))
    for name in "BCD":
        table.comes(name)
    table.has("A", size, 4)
    assert table.grows("B", 0)[0].endswith("as 1")
    assert table.grows("C", 0)[0].endswith("as 1")
    return table


def test_a_context_waits_until_others_are_measured() -> None:
    """Half a GiB each, it turns out: that is enough."""
    table = three_come()
    assert table.grows("D", 0) == []
    table.now += CONTEXT_SECONDS
    assert table.feed(PinnedMeasured(ord("B"), GIB // 2)) == []
    assert table.feed(PinnedMeasured(ord("C"), GIB // 2))[0].endswith("as 1")


def test_half_a_context_is_not_measured() -> None:
    """B's is being made: what NVML sees of it is less than it will be, and nobody is given the rest."""
    table = three_come()
    assert table.grows("D", 0) == []
    table.feed(PinnedMeasured(ord("B"), GIB // 4))
    assert table.core.snapshot(table.now)[0].clients[1].pinned_bytes == GIB
    assert table.feed(PinnedMeasured(ord("C"), GIB // 4)) == []


def test_a_context_is_refused_when_the_others_are_as_large_as_assumed() -> None:
    """Nothing else can be hoped for."""
    table = three_come()
    assert table.grows("D", 0) == []
    assert table.feed(PinnedMeasured(ord("B"), GIB)) == []
    assert "refuse D 1" in table.feed(PinnedMeasured(ord("C"), GIB))


def test_who_is_never_measured_is_not_waited_for() -> None:
    """The processes may be hidden from NVML: then what is assumed counts after a while."""
    table = three_come()
    assert table.grows("D", 0) == []
    assert "refuse D 1" in table.timer()
    assert table.now == CONTEXT_SECONDS + CONTEXT_KNOWN_SECONDS


def test_a_footprint_waits_until_contexts_are_measured() -> None:
    """B wants what fits if C's context is smaller than assumed, and is refused what would not fit then either."""
    table = three_come()
    table.now += CONTEXT_SECONDS
    table.feed(PinnedMeasured(ord("B"), GIB // 2))
    assert table.grows("B", 13.2) == []
    assert table.feed(PinnedMeasured(ord("C"), GIB // 2))[-1].endswith("as 2")
    assert "refuse B 3" in table.grows("B", 14.5)


def test_a_context_that_waits_or_is_made_is_charged_though_it_is_not_seen() -> None:
    """NVML lists no process of B and of D: B's will be there in a moment, D's when it may."""
    table = three_come()
    assert table.grows("D", 0) == []
    for name in "BD":
        assert table.feed(PinnedAssumed(ord(name), 0)) == []
    shown = [client.pinned_bytes for client in table.core.snapshot(table.now)[0].clients]
    assert shown == [GIB // 2, GIB, GIB, GIB]
    table.now += CONTEXT_KNOWN_SECONDS
    table.feed(PinnedAssumed(ord("B"), 0))
    assert table.core.snapshot(table.now)[0].clients[1].pinned_bytes == 0


def with_slack() -> Table:
    """A asked for 12.5 GiB, and was admitted more: too much for the context that D wants beside B's."""
    table = Table(pinned=1, reserve=0.25)
    table.comes("A", 9)
    table.feed(PinnedMeasured(ord("A"), GIB))
    assert table.grows("A", 12.5)[0].endswith("as 1")
    table.has("A", 12.5, 8, slack=2)
    table.comes("B")
    table.has("A", 12.5, 8, slack=2)
    assert table.grows("B", 0)[0].endswith("as 1")
    table.feed(PinnedMeasured(ord("B"), GIB))
    return table


def test_what_was_given_on_top_is_taken_back_for_a_context() -> None:
    """It comes in when A has heard of it, for A may have used it before."""
    table = with_slack()
    before = table.orders["A"]
    table.comes("D")
    assert table.orders["A"] > before
    assert table.grows("D", 0) == []
    assert table.has("A", 12.5, 8, order=before, slack=2) == []
    assert table.has("A", 12.5, 8)[0].endswith("as 1")


def test_what_was_given_on_top_and_is_used_meanwhile_counts() -> None:
    """A allocated before it heard: D would make it too large for the device."""
    table = with_slack()
    table.comes("D")
    assert table.grows("D", 0) == []
    assert "refuse D 1" in table.has("A", 13.2, 8)


def test_who_does_not_say_what_it_goes_by_keeps_what_it_may_have() -> None:
    """A is stopped: D is refused after the grace time, and does not wait for ever."""
    table = with_slack()
    table.comes("D")
    assert table.grows("D", 0) == []
    said = table.timer()
    assert table.now == 10.0
    assert "refuse D 1" in said


def test_what_a_client_may_still_go_by_is_pledged() -> None:
    """As with allotments: the most of all orders that it may not have read."""
    memory = Memory(Backend.SWAP, 4)
    memory.admitted_bytes = 10
    memory.tell(4, 0.0)
    assert memory.pledged_bytes == 10
    memory.admitted_bytes = 5
    memory.tell(4, 0.0)
    assert memory.pledged_bytes == 10
    memory.report(ResidencyReported(1, 2, 4, 4, admitted_bytes=5), 0.0)
    assert memory.pledged_bytes == 5
    memory.report(ResidencyReported(1, 2, 4, 4, admitted_bytes=4), 0.0)
    assert memory.pledged_bytes == 4
