"""Growths that only others' ends could make possible: who waits for them, how long, and who is refused after all."""

from __future__ import annotations

from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    ContainerFound,
    DeviceSeen,
    MemoryFreed,
    ResidencyReported,
    TermsSet,
)
from nvshare.scheduler.core.memory.queue import LOOK_SECONDS, SURE_SECONDS
from nvshare.scheduler.core.records.memory import CONTEXT_KNOWN_SECONDS
from nvshare.scheduler.core.terms import Terms, WhenFull
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table

WAIT, REFUSE = Terms(when_full=WhenFull.WAIT), Terms()


def table_of(sizes: dict[str, float], *, host: float = 0, terms: Terms = WAIT, pinned: float = 0) -> Table:
    """Clients with so many GiB, each in a container of its own, whose memory can only leave as far as ``host`` goes."""
    table = Table(host=host, pinned=pinned)
    for name, size in sizes.items():
        table.comes(name, size, arena=0)
        table.feed(ContainerFound(ord(name), f"of {name}", terms))
    return table


def ends(table: Table, name: str) -> list[str]:
    """A process ends, and the driver has freed what it had."""
    return table.feed(ClientGone(ord(name))) + table.feed(MemoryFreed(ord(name)))


def wait_of(table: Table, name: str) -> str:
    """Why its growth waits for others' ends; empty: it does not."""
    swap = table.core.client(ord(name), table.now).swap
    assert swap is not None
    return swap.wait


def refused(said: list[str]) -> list[str]:
    return [text for text in said if text.startswith("refuse")]


def granted(said: list[str]) -> list[str]:
    """Whose requests, by name and number."""
    words = [text.split() for text in said if " as " in text]
    return [f"{name} {request}" for _, name, _, _, request in words]


def test_what_an_end_could_free_is_waited_for() -> None:
    """Ten of fifteen are A's, and nothing of it can leave."""
    table = table_of({"A": 10, "B": 1})
    assert table.grows("B", 8) == []
    assert "host memory" in wait_of(table, "B")
    assert table.core.deadline() == table.now + LOOK_SECONDS
    assert granted(ends(table, "A")) == ["B 1"]
    assert not wait_of(table, "B")


def test_who_does_not_say_so_is_refused() -> None:
    """As a GPU refuses what it does not have."""
    table = table_of({"A": 10, "B": 1}, terms=REFUSE)
    assert table.grows("B", 8) == ["refuse B 1"]


def test_what_the_device_never_has_is_refused_at_once() -> None:
    """Whoever ends. With one GiB of reserve and room for contexts."""
    table = table_of({"A": 10, "B": 1})
    assert table.grows("B", 14) == ["refuse B 1"]
    assert table.grows("B", 13) == []


def test_what_its_own_container_has_stays() -> None:
    """Two processes of one container: they end together."""
    table = table_of({"A": 10, "B": 1})
    table.feed(ContainerFound(ord("B"), "of A", WAIT))
    assert table.grows("B", 8) == ["refuse B 1"]


def test_what_its_own_gang_has_stays() -> None:
    """So do processes whose work waits for each other's."""
    table = table_of({"A": 10, "B": 1})
    table.gang("AB")
    assert table.grows("B", 8) == ["refuse B 1"]


def test_its_limit_is_no_matter_of_others() -> None:
    table = table_of({"A": 1, "B": 1}, terms=Terms(memory_limit_bytes=2 * GIB, when_full=WhenFull.WAIT))
    assert table.grows("B", 3) == ["refuse B 1"]


def test_those_that_wait_for_each_other_do_not_wait_for_ever() -> None:
    """C's end would help neither. The last one to come is refused, and not before that is sure."""
    table = table_of({"A": 6, "B": 6, "C": 0.5})
    assert table.grows("A", 12) == []
    assert table.grows("B", 12) == []
    began = table.now
    assert refused(table.timer()) == ["refuse B 1"]
    assert table.now == began + SURE_SECONDS
    assert wait_of(table, "A")
    assert table.core.deadline() == table.now + LOOK_SECONDS
    assert granted(ends(table, "B")) == ["A 1"]


def test_where_everybody_waits_who_came_last_is_refused() -> None:
    """Nobody is left who could end."""
    table = table_of({"A": 6, "B": 6})
    assert table.grows("A", 9.5) == []
    assert table.grows("B", 9.25) == []
    assert refused(table.timer()) == ["refuse B 1"]


def test_contexts_of_unknown_size_are_nothing_to_give_up_for() -> None:
    """As when all are back after a restart. What is assumed of them is too much for A and B; it counts in the end."""
    table = table_of({"A": 6, "B": 4, "C": 2}, pinned=1)
    assert table.grows("A", 10) == []
    assert table.grows("B", 8) == []
    while not (said := refused(table.timer())):
        pass
    assert said == ["refuse B 1"]
    assert table.now >= CONTEXT_KNOWN_SECONDS + SURE_SECONDS


def test_one_that_becomes_hopeless_is_refused_before_those_that_came_later() -> None:
    """Another program takes four GiB: nobody's end helps A, which wants twelve; B may have nine when C ends."""
    table = table_of({"A": 1, "B": 1, "C": 10})
    table.grows("A", 12)
    table.grows("B", 9)
    table.feed(DeviceSeen(DEVICE, TOTAL * GIB, 4 * GIB))
    assert refused(table.timer()) == ["refuse A 1"]
    assert wait_of(table, "B")


def test_an_end_under_way_is_nothing_to_give_up_for() -> None:
    """B would be refused; then it is not hopeless any more, and later it is anew."""
    table = table_of({"A": 6, "B": 6, "C": 0.5})
    table.grows("A", 12)
    table.grows("B", 12)
    table.now += SURE_SECONDS / 2
    table.comes("D", 4, arena=0)
    ends(table, "D")
    table.now += SURE_SECONDS / 4
    assert table.core.handle_timer(table.now) == []
    assert refused(table.timer()) == ["refuse B 1"]


def test_the_oldest_comes_first_and_one_at_a_time() -> None:
    """Both would fit alone when A has ended."""
    table = table_of({"A": 10, "B": 1, "C": 1})
    table.grows("C", 9)
    table.grows("B", 9)
    table.answers = False
    assert granted(ends(table, "A")) == ["B 1"]
    table.has("B", 9, 9)
    assert wait_of(table, "C")


def test_who_asks_for_less_may_have_it_meanwhile() -> None:
    """A has ten and B waits for eight; there are four that C may have."""
    table = table_of({"A": 10, "B": 1, "C": 0})
    table.grows("B", 8)
    assert granted(table.grows("C", 2)) == ["C 1"]


def test_a_context_that_waits_takes_nothing() -> None:
    """One GiB is assumed of each, and A needs what B's would take."""
    table = table_of({"A": 14.5, "B": 0}, pinned=1)
    table.now += CONTEXT_KNOWN_SECONDS
    table.grows("B", 0)
    seen = table.core.client(ord("B"), 0)
    assert seen.swap is not None
    assert seen.swap.wait
    assert (seen.pinned_bytes, seen.swap.wanted_bytes) == (0, GIB)
    assert granted(ends(table, "A")) == ["B 1"]
    assert table.core.client(ord("B"), 0).pinned_bytes == GIB


def test_a_context_that_waited_is_admitted_when_there_is_room_for_it() -> None:
    """A and K have all that there is, and what is reserved for K is not for C's context; then K gives that up."""
    table = Table(pinned=1)
    for name, size in {"A": 5, "K": 8, "C": 0}.items():
        table.comes(name, size)
        kept_bytes = 8 * GIB if name == "K" else 0
        table.feed(
            ContainerFound(ord(name), f"of {name}", Terms(memory_request_bytes=kept_bytes, when_full=WhenFull.WAIT))
        )
    table.now += CONTEXT_KNOWN_SECONDS
    table.grows("C", 0)
    assert "reserved for of K" in wait_of(table, "C")
    assert table.feed(TermsSet("of K", WAIT)) == ["evict K 7"]
    assert granted(table.has("K", 8, 7)) == ["C 1"]


def test_who_changes_its_mind_is_refused() -> None:
    """The operator says refuse."""
    table = table_of({"A": 10, "B": 1})
    table.grows("B", 8)
    assert refused(table.feed(TermsSet("of B", REFUSE))) == ["refuse B 1"]


def test_a_newer_request_takes_the_place_of_the_one_that_waits() -> None:
    """Nothing answers the former."""
    table = table_of({"A": 10, "B": 1})
    table.grows("B", 8)
    assert granted(table.grows("B", 2)) == ["B 2"]
    assert granted(ends(table, "A")) == []


def test_who_is_gone_waits_no_more() -> None:
    table = table_of({"A": 10, "B": 1})
    table.grows("B", 8)
    ends(table, "B")
    assert granted(ends(table, "A")) == []


def test_host_memory_of_another_device_is_waited_for() -> None:
    """On the second GPU two have what the host takes; C's growth is on the first."""
    table = Table(host=8)
    for device in ("GPU-b", DEVICE):
        table.feed(DeviceSeen(device, TOTAL * GIB))
    for number in map(ord, "AB"):
        table.feed(ClientRegistered(number, "GPU-b", 10 * GIB, ClaimedState.IDLE, backend=Backend.SWAP))
        out = 7 * GIB if number == ord("B") else 0
        table.feed(
            ResidencyReported(
                number,
                0,
                10 * GIB,
                10 * GIB - out,
                admitted_bytes=10 * GIB,
                arena_bytes=out,
                usable_bytes=out,
                out_bytes=out,
            )
        )
    for name, size in (("C", 1), ("D", 10)):
        table.comes(name, size, arena=0)
        table.feed(ContainerFound(ord(name), f"of {name}", WAIT))
    assert refused(table.grows("C", 8)) == []
    assert wait_of(table, "C")
    assert "arena C 1" in ends(table, "B")
    assert not wait_of(table, "C")


def test_a_request_that_is_given_up_is_noticed_at_once() -> None:
    """A has one GiB, and ten of fifteen are reserved for it until its user thinks better of it."""
    table = table_of({"A": 1, "B": 1}, host=16)
    table.feed(TermsSet("of A", Terms(memory_request_bytes=10 * GIB)))
    assert table.grows("B", 8) == []
    assert "reserved" in wait_of(table, "B")
    assert granted(table.feed(TermsSet("of A", REFUSE))) == ["B 1"]


def test_what_it_does_not_use_is_not_kept_for_it() -> None:
    """A may have 11 GiB unasked, uses 7, and waits for what only B's end would leave: C has what does fit."""
    table = table_of({"A": 11, "B": 0, "C": 0}, host=100)
    table.has("A", 7, 7, slack=4)
    assert granted(table.grows("B", 0, fixed=2.5)) == ["B 1"]
    table.has("B", 0, 0, fixed=2.5)
    table.grows("A", 13)
    assert wait_of(table, "A")
    said = table.grows("C", 0, fixed=2)
    said += table.has("A", 7, 7, slack=3.5)
    assert granted(said) == ["C 1"]
