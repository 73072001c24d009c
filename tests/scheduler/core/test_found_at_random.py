"""What the random events of test_nobody_waits_for_ever.py found, as small as it could be made.

Each played until all obey: somebody waited for ever then, or messages never ended, or the core turned in circles.
"""

from __future__ import annotations

from nvshare.scheduler.core.events import Backend, Policy
from nvshare.scheduler.core.settings import Unresponsive
from nvshare.scheduler.core.terms import Priority, Terms, WhenFull
from tests.scheduler.core.memory.swap_model import MIB
from tests.scheduler.core.memory.test_swap_properties import GIB, SLOTS
from tests.scheduler.core.test_nobody_waits_for_ever import DEVICES, WholeMachine
from tests.scheduler.core.whole_model import Place

A, B = DEVICES
SMALL = 2 * MIB
BY_NCCL, BY_NAME = (False, True), (True, False)


def node(
    *programs: tuple[int, Place],
    later: tuple[Place, ...] = (),
    terms: tuple[Terms, ...] = (),
    host_bytes: int = 100 * GIB,
    policy: Policy = Policy.AUTO,
    style: tuple[bool, bool] = BY_NCCL,
) -> WholeMachine:
    """Programs with their footprints, which all have asked for the lock; ``later``: of teams that lack them.

    ``terms`` are the containers'.
    """
    machine = WholeMachine()
    places = [place for _, place in programs] + list(later)
    machine.start(
        policy=policy,
        host_bytes=host_bytes,
        sizes=[size for size, _ in programs],
        places=places + [Place(A)] * (SLOTS - len(places)),
        terms=[*terms, *[Terms()] * (3 - len(terms))],
        style=style,
        unresponsive=Unresponsive.REPORT,
    )
    return machine


def test_who_is_squeezed_stays_in_line() -> None:
    """It lacked memory beside a holder that does not leave: it was passed over, and so did not lack it any more."""
    machine = node(
        (13 * GIB, Place(A, team="t")),
        (SMALL, Place(B)),
        (SMALL, Place(B)),
        (SMALL, Place(A)),
        (SMALL, Place(A)),
        (SMALL, Place(A, team="t")),
    )
    machine.cut(slot=4)
    machine.wait(seconds=5.0)
    machine.wait(seconds=5.0)
    machine.teardown()


def test_who_is_squeezed_in_a_gang_that_is_apart_stays_in_line() -> None:
    """The same, where one grows and another gives the lock back."""
    machine = node(
        (SMALL, Place(A)),
        (SMALL, Place(A)),
        (SMALL, Place(A, team="t")),
        (5 * GIB, Place(A)),
        (SMALL, Place(A, team="t")),
        later=(Place(A, team="t"),),
    )
    machine.come(slot=4, size=8 * GIB)
    machine.release(slot=3)
    machine.teardown()


def test_a_gang_that_is_apart_does_not_come_together_by_a_slack() -> None:
    """Two of its members came in by themselves, held as one, were asked to leave for the others, and came in again."""
    node(
        (SMALL, Place(A, container=2)),
        (SMALL, Place(B, team="u")),
        (5 * GIB, Place(A, team="u")),
        (5 * GIB, Place(A)),
        (SMALL, Place(B, team="u")),
        (SMALL, Place(A, Backend.MANAGED, team="u")),
        terms=(Terms(), Terms(), Terms(memory_request_bytes=6 * GIB)),
        host_bytes=6 * GIB,
    ).teardown()


def test_who_needs_no_room_takes_none() -> None:
    """The room was negative, since one that is alone had the reserve: it was evicted for one that needs nothing."""
    node(
        (3 * GIB, Place(A)),
        (8 * GIB, Place(A, Backend.NATIVE)),
        (8 * GIB, Place(A, team="t")),
        (GIB, Place(A)),
        (GIB, Place(A)),
        (SMALL, Place(A, team="t", container=2)),
        terms=(Terms(), Terms(), Terms(priority=Priority.HIGH, memory_request_bytes=GIB)),
        host_bytes=6 * GIB,
        policy=Policy.EXCLUSIVE,
        style=BY_NAME,
    ).teardown()


def test_a_gangs_class_counts_on_all_its_devices() -> None:
    """A plain client waited for a gang whose member elsewhere has a higher class, and no floor was counted."""
    node(
        (SMALL, Place(A)),
        (SMALL, Place(A, team="u", container=2)),
        (SMALL, Place(B, team="u", container=1)),
        (SMALL, Place(A)),
        (SMALL, Place(A)),
        terms=(Terms(), Terms(priority=Priority.HIGH), Terms(weight=0.5)),
    ).teardown()


def test_the_class_of_one_that_has_left_its_gang() -> None:
    """It was counted in the class that the gang has without it."""
    machine = node(
        (SMALL, Place(B)),
        (8 * GIB, Place(A, team="t")),
        (SMALL, Place(A)),
        (SMALL, Place(A)),
        (5 * GIB, Place(A, team="t", container=0)),
        terms=(Terms(weight=0.5, priority=Priority.LOW),),
        style=BY_NAME,
    )
    machine.leave(slot=1)
    machine.teardown()


def test_a_gang_that_can_not_come_in_does_not_have_the_floors_slice() -> None:
    """One of it does not fit on A: on B it was before another one of its class, which waited for a higher class."""
    node(
        (13 * GIB, Place(A, team="u")),
        (5 * GIB, Place(A, Backend.NATIVE)),
        (SMALL, Place(B, team="u")),
        (13 * GIB, Place(B, team="t")),
        (8 * GIB, Place(B, container=1)),
        later=(Place(A, team="t"),),
        terms=(Terms(), Terms(priority=Priority.HIGH)),
    ).teardown()


def test_who_does_not_fit_beside_what_the_host_can_not_take_keeps_nobody_out() -> None:
    """Native clients take room, and host memory is scarce: it is shown as too large, and those behind it come in."""
    machine = node(
        (8 * GIB, Place(A)),
        (SMALL, Place(A)),
        (SMALL, Place(A)),
        (5 * GIB, Place(A)),
        (GIB, Place(A, Backend.NATIVE)),
        (SMALL, Place(A, Backend.NATIVE)),
        host_bytes=6 * GIB,
    )
    machine.come(slot=5, size=13 * GIB)
    machine.teardown()


def test_what_a_gang_waits_for_may_be_a_member_that_does_not_fit() -> None:
    """Its mate on B waits with it, and is told so."""
    machine = node((13 * GIB, Place(A, team="u")), (5 * GIB, Place(A, Backend.NATIVE)), (SMALL, Place(B, team="u")))
    machine.deliver_all()
    mate, waiter = machine.processes[0], machine.processes[2]
    wait = machine.core.client(waiter.number, machine.now).wait
    assert wait is not None
    assert (wait.too_large, wait.client, wait.device) == (True, mate.number, A)
    machine.teardown()


def test_no_compute_limit_keeps_out_who_lets_its_gang_stop() -> None:
    """Of three members two have used up their container's limit, and one that can't stop waits for the others' work."""
    machine = node(
        (SMALL, Place(A)),
        (SMALL, Place(A, team="t")),
        (SMALL, Place(A)),
        (SMALL, Place(A, team="t", container=2)),
        (SMALL, Place(A, team="t", container=2)),
        terms=(Terms(), Terms(), Terms(compute_limit=0.5)),
        style=BY_NAME,
    )
    machine.settle()
    machine.teardown()


def test_a_call_that_waits_for_ends_hears_of_those_on_other_devices() -> None:
    """Two wait for each other on B; when the last one that could end has ended on A, one of them is refused."""
    machine = node(
        (8 * GIB, Place(B, container=1)),
        (SMALL, Place(A)),
        (8 * GIB, Place(B, container=0)),
        terms=(Terms(memory_request_bytes=6 * GIB, when_full=WhenFull.WAIT), Terms(when_full=WhenFull.WAIT)),
        host_bytes=0,
        style=BY_NAME,
    )
    machine.come(slot=0, size=SMALL)
    machine.teardown()


def test_an_idle_member_may_need_what_only_its_holding_mate_can_leave() -> None:
    """It waits for memory that can't move: the mate leaves for it, though both hold as one."""
    machine = node((SMALL, Place(A, team="t")), (SMALL, Place(A)), (13 * GIB, Place(A, team="t")), style=BY_NAME)
    machine.pin(slot=0, size=256 * MIB)
    machine.kill(slot=1)
    machine.pin(slot=2, size=GIB)
    machine.wait(seconds=1.0)
    machine.teardown()


def test_managed_members_of_one_gang_need_together_what_each_needs() -> None:
    """The first one needs less than it has, since others keep the rest; the second one was kept out by all of it."""
    node(
        (5 * GIB, Place(A, Backend.MANAGED, team="t")),
        (SMALL, Place(A)),
        (3 * GIB, Place(A)),
        (5 * GIB, Place(A, container=1)),
        (SMALL, Place(A, Backend.MANAGED, team="t")),
        (SMALL, Place(A, team="t", container=2)),
        terms=(Terms(), Terms(memory_request_bytes=GIB), Terms(memory_request_bytes=6 * GIB)),
    ).teardown()


def test_a_gang_that_a_compute_limit_lets_in_now_has_a_moment() -> None:
    """It was kept out by the time of the event before, so nobody knew when the higher class owes it a slice."""
    machine = node(
        (5 * GIB, Place(A, Backend.MANAGED, team="u", container=0)),
        (5 * GIB, Place(B, team="t", container=2)),
        (SMALL, Place(A, team="u", container=1)),
        (SMALL, Place(A, team="t", container=0)),
        later=(Place(B, team="t"), Place(B, team="u", container=2)),
        terms=(Terms(compute_limit=0.5), Terms(priority=Priority.HIGH), Terms(compute_limit=0.5)),
        policy=Policy.EXCLUSIVE,
        style=BY_NAME,
    )
    machine.settle()
    machine.teardown()


def test_who_has_had_its_time_to_leave_keeps_its_memory() -> None:
    """It came back holding: it was told to move its memory out, and in the same step to keep it."""
    machine = node(
        (3 * GIB, Place(B, Backend.MANAGED, team="t")),
        (5 * GIB, Place(A, container=2)),
        (13 * GIB, Place(A, team="u", container=2)),
        (GIB, Place(A, team="t")),
        later=(Place(A, team="t"), Place(A, Backend.MANAGED, container=1)),
        terms=(
            Terms(),
            Terms(weight=0.5, memory_request_bytes=6 * GIB, when_full=WhenFull.WAIT),
            Terms(priority=Priority.LOW),
        ),
        policy=Policy.EXCLUSIVE,
    )
    machine.wait(seconds=5.0)
    machine.lose(slot=1)
    machine.wait(seconds=5.0)
    machine.grow(slot=5, size=64 * MIB)
    machine.grow(slot=4, size=8 * GIB)
    machine.wait(seconds=5.0)
    machine.cut(slot=0)
    machine.teardown()


def test_what_a_container_keeps_for_another_of_its_programs_stays_beside_one() -> None:
    """A gang was taken to have room that its own container keeps for another program: all waited for ever."""
    machine = node(
        (5 * GIB, Place(A, Backend.MANAGED, team="t")),
        (8 * GIB, Place(A, Backend.MANAGED)),
        (SMALL, Place(A, team="t", container=2)),
        (GIB, Place(A, Backend.MANAGED, team="t")),
        (5 * GIB, Place(A, container=1)),
        (3 * GIB, Place(A, team="t", container=1)),
        terms=(Terms(), Terms(priority=Priority.HIGH), Terms(priority=Priority.HIGH, memory_request_bytes=GIB)),
        host_bytes=6 * GIB,
    )
    asked = Terms(weight=4.0, memory_limit_bytes=6 * GIB, memory_request_bytes=6 * GIB, when_full=WhenFull.WAIT)
    machine.set_terms(place=1, terms=asked)
    machine.teardown()


def test_who_helped_its_gang_to_stop_leaves_by_its_compute_limit() -> None:
    """The limit was used up before it came in, so that nobody asked it to leave when the others had stopped."""
    machine = node(
        (SMALL, Place(A, Backend.NATIVE, team="t", container=0)),
        (SMALL, Place(A, team="t")),
        (SMALL, Place(B, Backend.NATIVE, team="t")),
        (SMALL, Place(A, Backend.MANAGED, team="t", container=0)),
        terms=(Terms(compute_limit=0.5),),
        policy=Policy.EXCLUSIVE,
        style=BY_NAME,
    )
    machine.settle()
    machine.teardown()


def test_what_lacked_beside_the_last_that_swaps_lacks_no_more_without_it() -> None:
    """Two of a gang were taken to have no room together, came in all the same, and were asked to leave, for ever."""
    machine = node(
        (13 * GIB, Place(B)),
        (13 * GIB, Place(A, Backend.MANAGED, team="t")),
        (GIB, Place(A, Backend.MANAGED, team="t")),
        (13 * GIB, Place(A, Backend.NATIVE)),
        (8 * GIB, Place(A)),
    )
    machine.kill(slot=3)
    machine.settle()
    machine.kill(slot=4)
    machine.teardown()


def test_two_gangs_have_one_order_everywhere() -> None:
    """On one GPU the floor owed a slice to the one of them, on the other GPU to the other one: neither came in."""
    machine = node(
        (1 * GIB, Place(B, Backend.MANAGED, "u", 1)),
        (8 * GIB, Place(A, container=2)),
        (13 * GIB, Place(B, Backend.MANAGED, "t")),
        (3 * GIB, Place(A, team="u", container=1)),
        (8 * GIB, Place(B, Backend.NATIVE)),
        (3 * GIB, Place(A, team="t")),
        terms=(
            Terms(4.0, compute_limit=0.5, memory_limit_bytes=6 * GIB, memory_request_bytes=6 * GIB),
            Terms(priority=Priority.LOW, memory_limit_bytes=10 * GIB, when_full=WhenFull.WAIT),
            Terms(4.0, Priority.HIGH, memory_limit_bytes=6 * GIB, memory_request_bytes=GIB),
        ),
        style=BY_NAME,
    )
    machine.join(slot=4)
    machine.ask(slots=[0, 3, 4, 4, 5, 5])
    machine.settle()
    machine.teardown()


def test_nobody_passes_who_would_have_to_leave_at_once() -> None:
    """The first waiter lacked what idle programs can't give back: who passed it was asked to leave, and asked again."""
    machine = node(
        (1 * GIB, Place(A, Backend.MANAGED, "t", 0)),
        (8 * GIB, Place(A, Backend.NATIVE, "t")),
        (5 * GIB, Place(A, team="t")),
        (3 * GIB, Place(A, team="u", container=2)),
        (5 * GIB, Place(A, Backend.MANAGED, container=0)),
        (3 * GIB, Place(A, Backend.NATIVE, "u", 0)),
        terms=(
            Terms(0.5, compute_limit=0.5, memory_request_bytes=GIB, when_full=WhenFull.WAIT),
            Terms(4.0, Priority.LOW, memory_request_bytes=GIB),
            Terms(4.0, Priority.LOW, compute_limit=0.5, when_full=WhenFull.WAIT),
        ),
        host_bytes=0,
        style=BY_NAME,
    )
    machine.grow(size=8 * GIB, slot=5)
    machine.idle(slot=0)
    machine.come(size=8 * GIB, slot=3)
    machine.deliver_all()
    machine.restart()
    machine.settle()
    machine.teardown()


def test_who_is_stopped_before_it_comes_in_keeps_nobody_out() -> None:
    """One of a gang was stopped before it had read that it may come in: who was behind the gang waited for ever."""
    machine = node(
        (5 * GIB, Place(A, Backend.MANAGED)),
        (3 * GIB, Place(A, team="t")),
        (GIB, Place(B, team="t")),
        (13 * GIB, Place(B, Backend.MANAGED)),
        (SMALL, Place(A, team="t")),
        (3 * GIB, Place(B)),
        policy=Policy.EXCLUSIVE,
        style=BY_NAME,
    )
    machine.fall_asleep(slot=2)
    machine.settle()
    machine.settle()
    assert machine.processes[0].turns
    assert machine.processes[5].turns
    machine.teardown()
