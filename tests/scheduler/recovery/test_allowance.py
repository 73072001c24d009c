"""For how long processes may be without their connections while they hold."""

from __future__ import annotations

from nvshare.scheduler.core.actions import Grant, ReportUnresponsive
from nvshare.scheduler.core.events import ClientGone, LockReleased
from nvshare.scheduler.recovery.allowance import MOST_SECONDS, RETURN_SECONDS, Allowances

ME = (7, 1)


def made() -> Allowances:
    """Those of a process with one client, 1."""
    return Allowances({1: ME}.__getitem__)


def use_up(allowances: Allowances) -> int:
    """How many absences of a moment a process may have."""
    count = 0
    while allowances.lost(ME, 100.0) and count < 1000:
        allowances.back(ME, 100.0)
        count += 1
    return count


def turn(allowances: Allowances, seconds: float, *, late: bool = False) -> None:
    """The client holds for so long, and gives the lock back."""
    allowances.observe(None, [Grant(1, 5)], 200.0)
    if late:
        allowances.observe(None, [ReportUnresponsive(1, 5, 1.0)], 201.0)
    allowances.observe(LockReleased(1, 5), [], 200.0 + seconds)


def test_absences_have_an_end() -> None:
    """Short ones cost something, too: what others wait after each."""
    allowances = made()
    assert 2 <= use_up(allowances) <= 10
    assert allowances.lost((8, 1), 100.0) == RETURN_SECONDS, "others have theirs"


def test_a_long_one() -> None:
    """Its time counts: the next ones are awaited for less, and at last not at all."""
    allowances = made()
    waits: list[float] = []
    now = 0.0
    while (seconds := allowances.lost(ME, now)) and len(waits) < 100:
        waits.append(seconds)
        now += seconds
        allowances.back(ME, now)
    assert waits[0] == RETURN_SECONDS
    assert sum(waits) <= MOST_SECONDS


def test_all_connections_at_once_are_one_absence() -> None:
    """A program with eight GPUs that closes everything is as much absent as one with one."""
    allowances = made()
    assert [allowances.lost(ME, 1.0) for _ in range(8)] == [RETURN_SECONDS] * 8
    for _ in range(8):
        allowances.back(ME, 1.5)
    assert allowances.lost(ME, 2.0) == RETURN_SECONDS


def test_turns_that_end_in_time_give_it_back() -> None:
    """As much as they were long, in part; what was late, or never came back, gives nothing."""
    allowances = made()
    use_up(allowances)
    turn(allowances, 0.01)
    assert use_up(allowances) <= 1
    turn(allowances, 60.0, late=True)
    assert not use_up(allowances)
    allowances.observe(None, [Grant(1, 5)], 200.0)
    allowances.observe(ClientGone(1), [], 300.0)
    assert not use_up(allowances)
    turn(allowances, 1000.0)
    assert use_up(allowances) == use_up(made())
