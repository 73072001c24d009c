"""Whose memory counts when: native and idle clients, growth, and what clients say of a device."""

from __future__ import annotations

from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.settings import ASSUMED_PINNED_BYTES
from nvshare.scheduler.core.snapshot import ClientSnapshot
from tests.scheduler.core.transcript import GIB, replay


def test_memory_of_an_idle_native_client_is_not_granted_again() -> None:
    """A's 60 GiB stay on the device while it idles: B and C take turns beside it."""
    replay(
        """
        0    device 80
        0    A comes 60 native
        0    B comes 15
        0    C comes 25
        1    B asks            -> grant B
        2    C asks            -> waiters B 1
        31   timer             -> revoke B
        32   B releases        -> grant C
        """,
        Policy.AUTO,
    )


def test_memory_of_a_waiting_native_client_is_not_granted() -> None:
    """While A waits D holds alone; E, which would fit beside D if A's memory were not there, waits too."""
    replay(
        """
        0    device 80
        0    A comes 60 native
        0    D comes 30
        0    E comes 15
        1    D asks            -> grant D
        2    A asks            -> waiters D 1
        3    E asks
        5    D releases        -> grant A, grant E
        """,
        Policy.AUTO,
    )


def test_memory_of_an_idle_managed_client_gives_way() -> None:
    """Its pages move out while others hold, so it is only counted when it holds."""
    replay(
        """
        0    device 80
        0    A comes 60
        0    B comes 15
        0    C comes 25
        1    B asks            -> grant B
        2    C asks            -> grant C
        """,
        Policy.AUTO,
    )


def test_native_clients_that_are_there_hold_together() -> None:
    """Their memory is on the device whoever holds, so nobody has to leave for it."""
    replay(
        """
        0    device 80
        0    A comes 40 native
        0    B comes 40 native
        1    A asks            -> grant A
        2    B asks            -> grant B
        """,
        Policy.AUTO,
    )


def test_one_holder_alone_is_always_admitted() -> None:
    """A can't be asked for its memory, and B would wait for ever: so it runs, alone, as well as it can."""
    replay(
        """
        0    device 80
        0    A comes 60 native
        0    B comes 30
        1    B asks            -> grant B
        2    A asks            -> waiters B 1
        31   timer             -> revoke B
        32   B releases        -> grant A
        """,
        Policy.AUTO,
    )


def test_a_native_holder_is_not_asked_to_leave_when_that_frees_nothing() -> None:
    """B, the newest, would free nothing; A's leaving frees its 10 GiB."""
    replay(
        """
        0    device 80
        0    A comes 10
        0    B comes 60 native
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    device 80 foreign 20 -> revoke A
        3    A releases
        4    device 80 foreign 60
        """,
        Policy.AUTO,
    )


def test_a_little_foreign_growth_takes_no_lock_away() -> None:
    """256 MiB too much are let pass, one byte more is not; and nobody is granted into what is not there."""
    slack = 256 / 1024
    replay(
        f"""
        0    device 16
        0    A comes 8
        0    B comes 8
        0    C comes 0.01
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    device 16 foreign {slack}
        3    B has {8 - slack}
        4    C asks            -> waiters A 1
        5    B has 8
        6    B has 8.000001    -> revoke B, waiters A 0
        """,
        Policy.AUTO,
    )


def test_the_slack_of_a_large_device_is_a_hundredth_of_it() -> None:
    """On 160 GiB 1.6 GiB; when it is exceeded, holders leave until everything fits, not only the slack."""
    replay(
        """
        0    device 160
        0    A comes 60
        0    B comes 60
        0    C comes 1
        0    D comes 39
        0    A asks            -> grant A
        1    B asks            -> grant B
        2    C asks            -> grant C
        3    D asks            -> grant D
        4    device 160 foreign 1.6
        5    device 160 foreign 1.7 -> revoke D
        """,
        Policy.AUTO,
    )


def test_the_smallest_claim_counts_while_its_client_is_there() -> None:
    """Without NVML. L says 1 TiB, which changes nothing; S says 1 MiB, which makes turns until it goes."""
    core = replay(
        """
        0    device 0
        0    L comes 0 of 1024
        0    A comes 8 of 16
        0    B comes 8 of 16
        1    A asks            -> grant A
        2    S comes 0 of 0.001
        3    B asks            -> waiters A 1
        4    S goes            -> grant B, waiters A 0
        5    C comes 1 of 16
        6    C asks            -> waiters A 1
        """,
        Policy.AUTO,
    )
    (device,) = core.snapshot(6.0)
    assert (device.total_bytes, device.total_measured) == (16 * GIB, False)


def test_what_was_measured_beats_every_claim() -> None:
    """Also when it comes late."""
    core = replay(
        """
        0    device 0
        0    A comes 8 of 1
        0    B comes 8 of 1024
        1    A asks            -> grant A
        2    B asks            -> waiters A 1
        3    device 16         -> grant B, waiters A 0
        4    C comes 0 of 2
        """,
        Policy.AUTO,
    )
    (device,) = core.snapshot(6.0)
    assert (device.total_bytes, device.total_measured) == (16 * GIB, True)


def test_a_better_assumption_lets_a_waiter_in_and_takes_no_lock_away() -> None:
    """What NVML can't say of a process is bounded by what is in use; it is still shown as assumed."""
    core = replay(
        """
        0    device 16
        0    A comes 8
        0    B comes 7.5
        0    A asks            -> grant A
        1    B asks            -> waiters A 1
        2    A assumed 0.25
        3    B assumed 0.25    -> grant B, waiters A 0
        4    B assumed 4
        """,
        Policy.AUTO,
        assumed_pinned_bytes=ASSUMED_PINNED_BYTES,
    )
    shown = [(client.pinned_bytes, client.pinned_measured) for client in core.snapshot(4.0)[0].clients]
    assert shown == [(GIB // 4, False), (4 * GIB, False)]


def test_a_client_without_a_context_has_one_when_it_asks() -> None:
    """Assumed to pin nothing while it idles, and what any program pins as soon as it wants to work."""

    def shown(client: ClientSnapshot) -> tuple[int, bool]:
        return client.pinned_bytes, client.pinned_measured

    idle = "0 device 16\n 0 A comes 8\n 1 A assumed 0"
    assert shown(replay(idle, assumed_pinned_bytes=GIB).snapshot(1.0)[0].clients[0]) == (0, False)
    asking = idle + "\n 2 A asks -> grant A"
    assert shown(replay(asking, assumed_pinned_bytes=GIB).snapshot(2.0)[0].clients[0]) == (GIB, False)
