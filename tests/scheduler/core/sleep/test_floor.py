"""What lower classes are owed where the contexts of a higher one, never idle, fill the device."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.events import (
    ClientGone,
    ContainerFound,
    MemoryFreed,
    PinnedMeasured,
    Policy,
    PolicySet,
    TermsSet,
)
from nvshare.scheduler.core.lock.floor import Floor
from nvshare.scheduler.core.sleep_events import FellAsleep, SleepOffered, WakeWanted, Woke
from nvshare.scheduler.core.terms import Priority, SleepWhen, Terms, WhenFull
from tests.scheduler.core.memory.swap_transcript import GIB, Table
from tests.scheduler.core.sleep.sleep_model import Sleeper
from tests.scheduler.core.sleep.sleepers import comes, full, sleepers
from tests.scheduler.core.sleep.test_sleep_properties import MIB, SleepMachine

SECONDS = 300


def goes_on(machine: SleepMachine, slot: int, size: int, *, busy: bool) -> None:
    """One that comes while others are there wants its memory, then turns, and to be awake for that."""
    process = machine.processes[slot]
    assert isinstance(process, Sleeper)
    process.busy = busy
    if process.pinned and not process.footprint and process.wanted is None:
        machine.come(slot=slot, size=size)
    elif (process.closed and not process.calls) or (process.footprint and not process.waits and process.grant is None):
        machine.ask(slots=[slot])


def play(policy: Policy, size: int, high: int, normal: int, *, busy: bool) -> SleepMachine:
    """So many programs of a high class are there, and never idle, when others come; two GiB are there, and a context
    takes 640 MiB, as is soon measured. ``busy``: neither are those."""
    machine = SleepMachine()
    machine.start(
        policy=policy, after=None, reserve=16 * MIB, memory=(100, 0), sizes=[size] * high, foreign=14, busy=True
    )
    for slot in range(high):
        machine.set_terms(slot=slot, terms=Terms(priority=Priority.HIGH))
    for slot in range(high, high + normal):
        machine.come(slot=slot, size=size)
    end = machine.now + SECONDS
    while machine.now < end:
        for slot in range(high + normal):
            goes_on(machine, slot, size, busy=busy or slot < high)
            machine.measure(slot=slot)
        machine.deliver_all()
        machine.wait(seconds=0.2)
        machine.deliver_all()
    return machine


@pytest.mark.parametrize(
    ("policy", "size", "high", "normal"),
    [
        (Policy.EXCLUSIVE, 2 * MIB, 3, 1),
        (Policy.EXCLUSIVE, 2 * MIB, 2, 3),
        (Policy.EXCLUSIVE, 300 * MIB, 2, 1),
        (Policy.AUTO, 100 * MIB, 2, 2),
    ],
)
def test_they_have_a_share_though_no_context_of_theirs_fits(policy: Policy, size: int, high: int, normal: int) -> None:
    """A twentieth, once they are there. None holds beside another one."""
    machine = play(policy, size, high, normal, busy=True)
    shown = [machine.core.client(process.number, machine.now) for process in machine.processes.values()]
    held = [client.held_seconds for client in shown]
    assert all(client.grants for client in shown)
    assert 0.03 < sum(held[high:]) / sum(held) < 0.06
    assert sum(held) > 0.95 * SECONDS


def busy_crowd(normal: Terms | None = None) -> Table:
    """A to D are of a high class, have nothing but contexts, and want the device all the time; A has it.

    With other terms B wants nothing.
    """
    table = full()
    table.feed(PolicySet(Policy.EXCLUSIVE))
    for name in "ABCD":
        is_other = name == "B" and normal is not None
        table.feed(ContainerFound(ord(name), name, normal if is_other else Terms(priority=Priority.HIGH)))
        if not is_other:
            table.asks(name)
    return table


def until_said(table: Table, text: str) -> float:
    """When that is said."""
    for _ in range(20):
        if text in table.timer():
            return table.now
    raise AssertionError(f"that is never said: {text}")


@pytest.mark.parametrize("names", ["EF", "FE"])
def test_what_others_sleep_for_goes_to_who_has_the_slice(names: str) -> None:
    """F is of a higher class than E, but would have to wait as long as the others are never idle."""
    table = busy_crowd()
    for name in names:
        table.comes(name, 0)
        if name == "F":
            table.feed(ContainerFound(ord("F"), "F", Terms(priority=Priority.HIGH)))
        assert table.grows(name, 0) == []
    assert until_said(table, "sleep D") == 20.0
    assert "allot E 0 as 1" in table.feed(FellAsleep(ord("D")))


@pytest.mark.parametrize("weight", [0.01, 1.0, 100.0])
def test_who_lacks_room_has_its_slice_though_weights_differ(weight: float) -> None:
    """E neither holds nor waits for a turn, so that the device's time is not divided with it."""
    table = busy_crowd()
    table.feed(ContainerFound(ord("B"), "B", Terms(weight=0.5, priority=Priority.HIGH)))
    table.comes("E", 0)
    table.feed(ContainerFound(ord("E"), "E", Terms(weight=weight)))
    assert table.grows("E", 0) == []
    assert until_said(table, "sleep D") == 20.0
    assert "allot E 0 as 1" in table.feed(FellAsleep(ord("D")))


def test_nobody_need_hold_or_wait_where_weights_differ() -> None:
    """E lacks room for its context, and nobody wants a turn."""
    table = full()
    for name in "ABCD":
        table.feed(ContainerFound(ord(name), name, Terms(weight=2.0, priority=Priority.HIGH)))
    table.comes("E", 0)
    assert table.grows("E", 0) == []
    assert until_said(table, "sleep A") == 1.0
    assert "allot E 0 as 1" in table.feed(FellAsleep(ord("A")))


def test_others_sleep_for_one_that_lacks_room_though_its_turn_is_over() -> None:
    """B waits for its turn, and asks for more than there is beside D's context: it would have turns, but no room."""
    table = sleepers("DBE", context=1, exclusive=True)
    table.feed(ContainerFound(ord("D"), "D", Terms(priority=Priority.HIGH)))
    table.feed(ContainerFound(ord("E"), "E", Terms(sleep=SleepWhen.NEVER)))
    for name in "DBE":
        table.asks(name)
    table.grows("B", 12.5)
    assert until_said(table, "revoke D") == 20.0
    assert table.releases("D") == ["grant B"]
    table.asks("D")
    assert table.timer() == ["revoke B", "evict D 0"]
    assert "grant E" in table.releases("B")
    table.asks("B")
    assert "sleep D" in table.has("D", 1, 0)
    assert "allot B 12 as 1" in table.feed(FellAsleep(ord("D")))


def test_a_holder_of_a_higher_class_makes_way_as_soon_as_a_slice_is_due() -> None:
    """A is the only one that can sleep for E, which is in no line. A's turn would be over at 30 s."""
    table = full()
    for name in "ABCD":
        sleep = SleepWhen.PRESSURE if name == "A" else SleepWhen.NEVER
        table.feed(ContainerFound(ord(name), name, Terms(priority=Priority.HIGH, sleep=sleep)))
    table.asks("A")
    table.comes("E", 0)
    table.feed(SleepOffered(ord("E"), ord("E")))
    table.grows("E", 0)
    assert until_said(table, "revoke A") == 20.0


def test_who_came_first_of_a_class_has_its_slice() -> None:
    """B waits for its turn, and E for its context."""
    table = busy_crowd(Terms())
    table.asks("B")
    table.comes("E", 0)
    assert table.grows("E", 0) == []
    assert until_said(table, "revoke A") == 20.0
    assert "grant B" in table.releases("A")


def test_who_is_gone_is_owed_nothing() -> None:
    """E lacked room for its context, and F does."""
    table = busy_crowd()
    for name in "EF":
        table.comes(name, 0)
        table.grows(name, 0)
    table.feed(ClientGone(ord("E")))
    assert until_said(table, "sleep D") == 20.0
    assert "allot F 0 as 1" in table.feed(FellAsleep(ord("D")))


def test_who_has_a_slice_keeps_no_other_one_from_its_own() -> None:
    """D does not come to sleep for E. B asked after E, and does not sleep for it."""
    table = busy_crowd(Terms(sleep=SleepWhen.NEVER))
    table.comes("E", 0)
    assert table.grows("E", 0) == []
    table.asks("B")
    assert until_said(table, "sleep D") == 20.0
    assert until_said(table, "revoke A") == 30.0
    assert "grant C" in table.releases("A")
    assert until_said(table, "revoke C") == 40.0
    assert "grant B" in table.releases("C")


def slept_again() -> Table:
    """E had a slice for its context, fell asleep again without a turn, for D, and wants to be awake."""
    table = busy_crowd()
    table.comes("E", 0)
    table.feed(SleepOffered(ord("E"), ord("E")))
    table.grows("E", 0)
    assert until_said(table, "sleep D") == 20.0
    assert "allot E 0 as 1" in table.feed(FellAsleep(ord("D")))
    table.has("E", 0, 0)
    table.feed(PinnedMeasured(ord("E"), GIB))
    table.feed(WakeWanted(ord("D")))
    assert until_said(table, "sleep E") == 21.0
    assert "wake D" in table.feed(FellAsleep(ord("E")))
    table.feed(Woke(ord("D")))
    table.has("D", 0, 0)
    table.asks("D")
    table.feed(WakeWanted(ord("E")))
    return table


def test_who_slept_again_without_a_turn_is_owed_another_slice() -> None:
    """E had its context for a second, and D's place in line is before its own."""
    assert until_said(slept_again(), "sleep D") == 41.0


def test_who_has_just_woken_for_its_turn_is_owed_the_slice() -> None:
    """It comes due before E has asked for the lock. F lacks a context, and came after E."""
    table = slept_again()
    table.comes("F", 0)
    table.grows("F", 0)
    until_said(table, "revoke A")
    assert "grant B" in table.releases("A")
    table.asks("A")
    table.now = 40.5
    table.feed(ClientGone(ord("D")))
    assert "wake E" in table.feed(MemoryFreed(ord("D")))
    table.feed(Woke(ord("E")))
    table.has("E", 0, 0)
    table.timer()
    assert table.now == 41.0
    assert table.asks("E") == ["revoke B"]


def test_who_has_woken_for_its_turn_has_that_before_it_sleeps_again() -> None:
    """D is the only one that can sleep for E, which is owed a slice sooner than D has waited for its turn."""
    table = slept_again()
    for name in "ABC":
        table.feed(TermsSet(name, Terms(priority=Priority.HIGH, sleep=SleepWhen.NEVER)))
    said: list[str] = []
    for name in "ABCD":
        until_said(table, f"revoke {name}")
        said += [*table.releases(name), *table.asks(name)]
    assert said == ["grant B", "grant C", "grant D", "grant A"]
    assert until_said(table, "sleep D") == table.now == 121.0


def test_no_slice_is_for_who_waits_for_others_ends() -> None:
    """The fifth asks for memory that nobody can leave, and comes before those that lack a context: they are served."""
    machine = SleepMachine()
    machine.start(
        policy=Policy.EXCLUSIVE,
        after=None,
        reserve=16 * MIB,
        memory=(6, 100),
        sizes=[2 * GIB, GIB // 2, 2 * GIB, 2 * MIB, 64 * MIB, 2 * GIB],
        foreign=13,
        busy=True,
    )
    machine.poll(slot=1)
    machine.clean_up()
    machine.poll(slot=3)
    machine.load(slot=5, size=256 * MIB)
    machine.say(slot=0)
    machine.everyone_is_served()
    machine.set_terms(slot=4, terms=Terms(when_full=WhenFull.WAIT))
    machine.set_terms(slot=0, terms=Terms(memory_limit_bytes=GIB // 2, priority=Priority.HIGH))
    machine.pin(slot=4, size=2 * MIB)
    machine.everyone_is_served()
    machine.pin(slot=4, size=GIB)
    machine.set_terms(slot=1, terms=Terms(weight=4.0, memory_request_bytes=32 * GIB, when_full=WhenFull.WAIT))
    machine.everyone_is_served()


@pytest.mark.parametrize("policy", [Policy.EXCLUSIVE, Policy.AUTO])
def test_others_sleep_for_them_no_more_often_where_their_turns_are_short(policy: Policy) -> None:
    """Who gives its slice back at once cost the others as much as who uses it."""
    machine = play(policy, 2 * MIB, 3, 1, busy=False)
    *high, normal = [machine.core.client(process.number, machine.now) for process in machine.processes.values()]
    assert normal.grants > SECONDS / 20 / 2
    assert sum(client.sleeps for client in high) <= SECONDS / 20 + 2


def test_others_sleep_for_one_that_only_looks_no_more_often() -> None:
    """It wants to be awake for calls that need no turn, again and again."""
    machine = play(Policy.EXCLUSIVE, 2 * MIB, 3, 1, busy=False)
    high = [process.number for process in machine.processes.values()][:3]

    def sleeps() -> int:
        return sum(machine.core.client(number, machine.now).sleeps for number in high)

    before, wakes = sleeps(), machine.processes[3].wakes
    end = machine.now + SECONDS
    while machine.now < end:
        machine.poll(slot=3)
        machine.deliver_all()
        machine.wait(seconds=0.2)
        machine.deliver_all()
    assert machine.processes[3].wakes > wakes
    assert sleeps() - before <= SECONDS / 20 + 1


def test_a_class_is_owed_time_while_nobody_holds_and_both_wait() -> None:
    """The device gets ready for the higher one."""
    floor, waiting = Floor(0.05), {Priority.HIGH: 1.0, Priority.NORMAL: 1.0}
    floor.pass_time(0.0, waiting, (), ())
    assert floor.next(waiting, Priority.HIGH) == (Priority.NORMAL, 20.0)


def test_who_waits_for_what_is_about_to_be_free_is_owed_time() -> None:
    """What D had is not seen to be free for 25 seconds; then E is before all others."""
    table = busy_crowd()
    table.feed(ClientGone(ord("D")))
    table.comes("E", 0)
    assert table.grows("E", 0) == []
    while table.now < 19:
        table.timer()
    table.now = 25.0
    assert "allot E 0 as 1" in table.feed(MemoryFreed(ord("D")))
    table.has("E", 0, 0)
    table.feed(PinnedMeasured(ord("E"), GIB))
    assert table.asks("E") == ["revoke A"]
    assert "grant E" in table.releases("A")


def test_what_is_about_to_be_free_goes_to_the_higher_class() -> None:
    """What D had is not seen to be free at once, and E asks for it before F does."""
    table = busy_crowd()
    table.feed(ClientGone(ord("D")))
    for name in "EF":
        table.comes(name, 0)
        if name == "F":
            table.feed(ContainerFound(ord("F"), "F", Terms(priority=Priority.HIGH)))
        assert table.grows(name, 0) == []
    assert table.feed(MemoryFreed(ord("D"))) == ["allot F 0 as 1"]


def test_who_waits_for_its_turn_and_never_fits_is_owed_time() -> None:
    """What B has lies in host memory; it can be there again when another one sleeps. Its slice is longer for that."""
    table = busy_crowd(Terms())
    table.has("B", 1, 0)
    table.asks("B")
    assert 25.0 < until_said(table, "sleep D") < 26.0
    assert "allot B 1" in table.feed(FellAsleep(ord("D")))


def test_others_have_the_next_slice_while_one_lacks_room() -> None:
    """E lacks what only A could leave, so it has no use for the slice that it is owed first."""
    table = sleepers(context=1, exclusive=True)
    for name, size in ("A", 12.5), ("B", 0.0):
        comes(table, name, size)
    table.feed(ContainerFound(ord("A"), "A", Terms(priority=Priority.HIGH, sleep=SleepWhen.NEVER)))
    assert table.asks("A") == ["grant A"]
    table.comes("E", 0)
    assert table.grows("E", 0) == []
    table.asks("B")
    assert until_said(table, "revoke A") == pytest.approx(40.0)
