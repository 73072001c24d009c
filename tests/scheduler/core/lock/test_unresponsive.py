"""A holder that does not give the lock back: who runs beside it, and when it is killed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.lock.stuck import PATIENCE_SHARE
from nvshare.scheduler.core.settings import Settings, Unresponsive
from tests.scheduler.core.transcript import replay
from tests.scheduler.core.workloads import GIB, Program, Workload

QUANTUM_SECONDS = 1.0
SLOWEST_SECONDS = 60.0
SLOW_PROGRAMS = st.builds(
    Program,
    st.just("a"),
    footprint_bytes=st.sampled_from((4, 4, 7, 14)).map(GIB.__mul__),
    drain_seconds=st.sampled_from((12.0, 25.0, SLOWEST_SECONDS)),
)

STUCK = """
    0    device 16
    0    U comes 10
    0    B comes 12
    0    U asks            -> grant U
    1    B asks            -> waiters U 1
    30   timer             -> revoke U
"""


def test_whoever_fits_beside_it_runs() -> None:
    """B can't come in while U is there, so it is passed over: C and D take turns. B is the first again when U goes."""
    replay(
        STUCK
        + """
        40   timer             -> unresponsive U 10
        41   C comes 4
        41   C asks            -> grant C
        42   D comes 5
        42   D asks            -> waiters C 2
        71   timer             -> revoke C
        72   C releases        -> grant D
        72   C asks            -> waiters D 2
        73   U goes            -> grant C
        102  timer             -> revoke D
        103  D releases        -> grant B
        """,
        Policy.AUTO,
    )


def test_nobody_leaves_for_a_waiter_that_it_keeps_out() -> None:
    """C would delay B until U is unresponsive; from then on B waits for U alone, and C runs undisturbed."""
    core = replay(
        STUCK
        + """
        31   B has 14
        35   C comes 4
        35   C asks
        40   timer             -> unresponsive U 10, grant C
        """,
        Policy.AUTO,
    )
    assert core.deadline() is None


def test_report_is_all_by_default() -> None:
    """It stays until it answers or ends."""
    core = replay(STUCK + "40 timer -> unresponsive U 10", Policy.AUTO)
    assert core.deadline() is None


def test_kill_when_somebody_waits_for_it() -> None:
    """Once, when the grace time has passed."""
    core = replay(
        STUCK
        + """
        40   timer             -> unresponsive U 10, kill U
        41   B has 13
        42   U goes            -> grant B
        """,
        Policy.AUTO,
        unresponsive=Unresponsive.KILL,
    )
    assert core.deadline() is None


def test_kill_does_not_wait_for_as_long_as_the_waiter_does() -> None:
    """B has waited for 199 s, and would wait for an eighth of that more; who kills does so after the grace time."""
    replay(
        """
        0    device 16
        0    quantum 200
        0    U comes 10
        0    B comes 12
        0    U asks            -> grant U
        1    B asks            -> waiters U 1
        200  timer             -> revoke U
        210  timer             -> unresponsive U 10, kill U
        211  U goes            -> grant B
        """,
        Policy.AUTO,
        unresponsive=Unresponsive.KILL,
    )


def test_no_kill_while_nobody_needs_it() -> None:
    """C runs beside it; only B, which can't, is a reason."""
    replay(
        """
        0    device 16
        0    U comes 10
        0    C comes 4
        0    B comes 12
        0    U asks            -> grant U
        1    B asks            -> waiters U 1
        30   timer             -> revoke U
        31   B goes
        40   timer             -> unresponsive U 10
        41   C asks            -> grant C
        """,
        Policy.AUTO,
        unresponsive=Unresponsive.KILL,
    )


def test_kill_of_as_few_as_must_go() -> None:
    """V alone is enough for B; when B grows, U must go too."""
    replay(
        """
        0    device 16
        0    U comes 4
        0    V comes 6
        0    B comes 13
        0    U asks            -> grant U
        1    V asks            -> grant V
        2    B asks            -> waiters U 1, waiters V 1
        31   timer             -> revoke U, revoke V
        32   B has 12
        41   timer             -> unresponsive U 10, unresponsive V 10, kill V
        42   B has 13          -> kill U
        43   V goes
        44   U goes            -> grant B
        """,
        Policy.AUTO,
        unresponsive=Unresponsive.KILL,
    )


def test_of_those_that_were_asked_at_different_times_the_longest_holder_is_killed() -> None:
    """W was asked to leave first, but V has held for longer, and one of the two is enough for B."""
    replay(
        """
        0    device 16
        0    U comes 3
        0    V comes 5
        0    W comes 5
        0    B comes 4
        0    U asks            -> grant U
        1    V asks            -> grant V
        2    W asks            -> grant W
        3    device 16 foreign 6  -> revoke W
        4    device 16 foreign 12 -> revoke V
        13   timer             -> unresponsive W 10
        14   timer             -> unresponsive V 10
        15   device 16 foreign 6
        16   B asks            -> kill V
        """,
        Policy.AUTO,
        unresponsive=Unresponsive.KILL,
    )


def test_kill_under_exclusive() -> None:
    """Nobody may run beside it, so the first waiter is reason enough."""
    replay(
        """
        0    device 16
        0    U comes 1
        0    B comes 1
        0    U asks            -> grant U
        1    B asks            -> waiters U 1
        30   timer             -> revoke U
        40   timer             -> unresponsive U 10, kill U
        41   U releases        -> grant B
        41   U asks            -> waiters B 1
        """,
        unresponsive=Unresponsive.KILL,
    )


def test_off_lets_everybody_run_beside_it() -> None:
    """Also beside one whose footprint is unknown."""
    replay(
        """
        0    device 16
        0    U comes ?
        0    B comes 1
        0    U asks            -> grant U
        1    B asks            -> waiters U 1
        30   timer             -> revoke U
        40   timer             -> unresponsive U 10
        41   policy off        -> grant B
        """,
        Policy.AUTO,
    )


def test_two_that_are_slow_keep_nobody_out_by_turns() -> None:
    """C fits beside neither. B passes it while A is late, and A while B is; then C has waited for so long that it waits
    for A as well."""
    replay(
        """
        0    device 16
        0    A comes 4
        0    B comes 4
        0    C comes 14
        0    A asks            -> grant A
        1    C asks            -> waiters A 1
        2    B asks
        30   timer             -> revoke A
        40   timer             -> unresponsive A 10, grant B
        42   A releases        -> waiters B 1
        42   A asks
        70   timer             -> revoke B
        80   timer             -> unresponsive B 10, grant A
        82   B releases        -> waiters A 1
        82   B asks
        110  timer             -> revoke A
        120  timer             -> unresponsive A 10
        122  A releases        -> grant C, waiters C 1
        """,
        Policy.AUTO,
    )


def test_one_that_never_leaves_keeps_out_only_who_does_not_fit() -> None:
    """V hangs. B has waited for 170 s when V is asked to leave, and waits for an eighth of that; then W comes in."""
    replay(
        STUCK
        + """
        40     timer           -> unresponsive U 10
        41     B has 13
        141    V comes 4
        141    V asks          -> grant V
        142    W comes 4
        142    U releases      -> waiters V 1
        142    W asks
        171    timer           -> revoke V
        181    timer           -> unresponsive V 10
        192.25 timer           -> grant W
        """,
        Policy.AUTO,
    )


@settings(max_examples=60)
@given(st.lists(SLOW_PROGRAMS, min_size=3, max_size=5))
def test_whoever_is_slow_everybody_is_served(programs: list[Program]) -> None:
    """Programs that all leave, but only after the grace time, and never rest. Nobody waits for longer than until the
    slowest is waited for, and those that are there then have left, or were before it in line."""
    chosen = Settings(Policy.AUTO, quantum_seconds=QUANTUM_SECONDS, assumed_pinned_bytes=0)
    workload = Workload([replace(program) for program in programs], {}, chosen)
    longest = (1 / PATIENCE_SHARE + 1 + len(programs)) * (QUANTUM_SECONDS + SLOWEST_SECONDS)
    workload.run(1.5 * longest)
    for program in workload.programs.values():
        present = workload.now - program.waits_since if program.waits else 0.0
        assert max([*program.waited, present]) <= longest
