"""What the random events of test_operated_properties.py found, as small as it could be made.

In each a plan did not rest: the next one did more though nothing had happened, or one rule undid what another one did.
"""

from __future__ import annotations

from nvshare.scheduler.core.events import Backend, Policy, PolicySet
from nvshare.scheduler.core.terms import Priority, Terms
from tests.scheduler.core.memory.test_swap_properties import GIB
from tests.scheduler.core.test_found_at_random import SMALL, A, B, node
from tests.scheduler.core.whole_model import Place


def test_a_limit_that_counts_no_more_keeps_no_gang_out() -> None:
    """The policy off, under which there are no limits, was set on one of its devices."""
    machine = node(
        (GIB, Place(B, team="t", container=1)),
        (SMALL, Place(A, team="t", container=1)),
        (13 * GIB, Place(B, Backend.MANAGED, team="u", container=0)),
        (GIB, Place(A, Backend.MANAGED, team="u")),
        later=(Place(B, Backend.NATIVE),),
        terms=(Terms(compute_limit=0.5), Terms(priority=Priority.HIGH)),
        policy=Policy.EXCLUSIVE,
    )
    machine.grow(slot=4, size=0)
    machine.grow(slot=4, size=2 * GIB)
    machine.handle(PolicySet(Policy.OFF, B))
    machine.teardown()


def test_who_waits_for_memory_alone_does_not_say_how_long_a_limited_turn_is() -> None:
    """One of the same container waits for the lock: by the one's need its limit let it hold, by its own it did not."""
    machine = node(
        (13 * GIB, Place(A, Backend.MANAGED, team="t")),
        (SMALL, Place(B, Backend.NATIVE)),
        (3 * GIB, Place(A, team="u", container=2)),
        (SMALL, Place(A, team="t", container=2)),
        (2 * GIB, Place(A, Backend.NATIVE, team="t")),
        later=(Place(A, team="u", container=2),),
        terms=(Terms(), Terms(), Terms(compute_limit=0.5)),
    )
    machine.come(slot=5, size=0)
    for _ in range(3):
        machine.say(slot=5)
    machine.wait(seconds=1.0)
    machine.cut(slot=3)
    machine.teardown()
