"""Clients whose memory swaps, with a scheduler as it runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.client_process import ClientProcess
from tests.scheduler.swapper import Swapper
from tests.scheduler.wire_client import DEVICE, TIMEOUT_SECONDS, Scheduler

pytestmark = pytest.mark.soak

Serve = Callable[..., Scheduler]

MIB = 1 << 20
TOTAL = 4 << 30
"""Of the devices here."""
FOOTPRINT = 1792 * MIB
"""One fits beside two contexts and the reserve; two do not."""


def swapper(scheduler: Scheduler) -> Swapper:
    """A client that has nothing yet."""
    return Swapper(scheduler.client()).register(total_bytes=TOTAL)


def test_growth_is_granted_and_refused(serve: Serve) -> None:
    """What fits is there at once; what never can is refused with a reason."""
    client = swapper(serve()).grow(1024 * MIB)
    assert client.memory.resident_bytes == 1024 * MIB
    assert client.capacity < TOTAL
    request = client.ask(2 * TOTAL)
    client.until(lambda: client.refused)
    assert client.refused.keys() == {request}
    assert client.refused[request]


def test_an_arena_arrives_filled(serve: Serve) -> None:
    """When two don't fit beside each other. The scheduler keeps nothing of it."""
    scheduler = serve("--host-memory", "8GiB")
    first, second = swapper(scheduler).grow(FOOTPRINT), swapper(scheduler)
    second.grow(FOOTPRINT)
    first.until(lambda: first.arenas)
    descriptors = first.client.raw.descriptors
    found = [os.fstat(descriptor) for descriptor in descriptors]
    assert [each.st_size for each in found] == first.arenas
    assert [each.st_blocks * 512 for each in found] == first.arenas
    with pytest.raises(PermissionError):
        os.ftruncate(descriptors[0], 0)
    poll_until(lambda: not scheduler.open_arenas(), "the scheduler has closed what it sent", TIMEOUT_SECONDS)


def test_two_that_do_not_fit_take_turns(serve: Serve) -> None:
    """Each has all of its memory on the device when it holds, and both have theirs elsewhere otherwise."""
    scheduler = serve("--host-memory", "8GiB", "--quantum", "0.05")
    first, second = swapper(scheduler).grow(FOOTPRINT), swapper(scheduler).grow(FOOTPRINT)
    for client in (first, second):
        client.lock()
    for holder, other in ((first, second), (second, first)):
        while holder.grant is None:
            for client in (first, second):
                try:
                    client.take(client.client.receive(0.01))
                except TimeoutError:
                    continue
        assert holder.memory.resident_bytes == FOOTPRINT
        assert other.memory.resident_bytes < FOOTPRINT
    assert sum(client.memory.resident_bytes for client in (first, second)) <= TOTAL


def test_more_host_memory_than_the_machine_has(serve: Serve) -> None:
    """One line says what was asked for, and what there is."""
    serve("--host-memory", "2MiB").kill()
    (said,) = serve("--host-memory", "1024TiB").logged("there is less host memory than was asked for")
    assert said["asked"] == "1048576.0 GiB"
    assert said["given"]


def test_without_host_memory_the_second_is_refused(serve: Serve) -> None:
    """It could never be brought out again."""
    scheduler = serve("--host-memory", "0")
    swapper(scheduler).grow(FOOTPRINT)
    second = swapper(scheduler)
    second.ask(FOOTPRINT)
    second.until(lambda: second.refused)


GARBAGE = {
    "grow of nothing": wire.Grow(0, 1, 1),
    "too much to want": wire.Grow(1, 1 << 60, 0),
    "too much that can't move": wire.Grow(1, 0, 1 << 60),
    "more in than there is": wire.Resident(0, MIB, 2 * MIB),
    "more out than there is": wire.Resident(0, MIB, MIB, out_bytes=2 * MIB),
    "more usable than there is": wire.Resident(0, 0, 0, usable_bytes=1),
    "too large": wire.Resident(0, 1 << 60, 0),
    "an order that was never given": wire.Resident(1 << 30, 0, 0),
    "an arena that was never sent": wire.Resident(0, 0, 0, arena_bytes=1 << 40),
    "a footprint in the wrong frame": wire.Footprint(MIB),
    "what only a scheduler says": wire.Allot(1, 1, 1, 1),
}


@pytest.mark.parametrize("frame", GARBAGE.values(), ids=GARBAGE.keys())
def test_nonsense_ends_that_connection_only(serve: Serve, frame: wire.Frame) -> None:
    """With one log line."""
    scheduler = serve()
    good, bad = swapper(scheduler), swapper(scheduler)
    bad.grow(MIB)
    bad.client.send(frame)
    bad.client.raw.wait_closed()
    good.grow(MIB)
    assert len(scheduler.logged("peer disconnected")) == 1


@pytest.mark.parametrize("numbers", [{"footprint_bytes": 1 << 60}, {"total_bytes": 1 << 60}])
def test_nobody_registers_with_nonsense(serve: Serve, numbers: dict[str, int]) -> None:
    """Or says later that it has so much, where its memory does not swap."""
    scheduler = serve()
    bad, other = scheduler.client(), scheduler.client().register()
    bad.send(replace(wire.Register(DEVICE, MIB, swaps=True), **numbers))
    bad.raw.wait_closed()
    other.send(wire.Footprint(1 << 60))
    other.raw.wait_closed()
    poll_until(lambda: len(scheduler.logged("peer disconnected")) == 2, "both have their line", TIMEOUT_SECONDS)


@pytest.mark.parametrize("frame", [wire.Grow(1, MIB, 0), wire.Resident(0, 0, 0)])
def test_frames_of_who_does_not_swap(serve: Serve, frame: wire.Frame) -> None:
    """Before REGISTER, and after one that did not say so."""
    scheduler = serve()
    stranger, other = scheduler.client(), scheduler.client().register()
    for client in (stranger, other):
        client.send(frame)
        client.raw.wait_closed()
    poll_until(lambda: len(scheduler.logged("peer disconnected")) == 2, "both have their line", TIMEOUT_SECONDS)


def test_a_client_killed_while_its_arena_is_filled(serve: Serve) -> None:
    """Nothing of it stays, and another one gets its own."""
    scheduler = serve("--host-memory", "8GiB")
    swapper(scheduler).grow(FOOTPRINT)
    with ClientProcess() as process:
        second = Swapper(process.connect(scheduler)).register(total_bytes=TOTAL)
        second.ask(FOOTPRINT)
        poll_until(lambda: scheduler.open_arenas(), "a segment is on its way", TIMEOUT_SECONDS)
        process.kill()
        second.client.close()
    poll_until(lambda: len(scheduler.states()) == 1, "the client is gone", TIMEOUT_SECONDS)
    third = swapper(scheduler).grow(FOOTPRINT)
    third.until(lambda: third.arenas)
    poll_until(lambda: not scheduler.open_arenas(), "nothing is left open", TIMEOUT_SECONDS)


def test_nothing_is_given_before_the_former_clients_are_back(serve: Serve) -> None:
    """Their memory may be anywhere on the device: whoever comes first waits for the others."""
    with ClientProcess() as theirs, ClientProcess() as mine:
        scheduler = serve()
        first = Swapper(theirs.connect(scheduler)).register(total_bytes=TOTAL).grow(FOOTPRINT)
        scheduler.kill()
        scheduler = serve()
        newcomer = Swapper(mine.connect(scheduler)).register(total_bytes=TOTAL)
        request = newcomer.ask(FOOTPRINT)
        assert newcomer.waits(request)
        back = Swapper(theirs.connect(scheduler))
        back.memory = replace(first.memory, order=0)
        back.register(total_bytes=TOTAL)
        newcomer.until(lambda: newcomer.granted == request)
        assert back.memory.resident_bytes + newcomer.allotted <= TOTAL


@pytest.mark.parametrize("dies", [True, False], ids=["dead", "silent"])
def test_a_former_client_that_does_not_come_back(serve: Serve, dies: bool) -> None:
    """It is waited for until it has ended, or for 2 s."""
    with ClientProcess() as theirs, ClientProcess() as mine:
        scheduler = serve()
        Swapper(theirs.connect(scheduler)).register(total_bytes=TOTAL).grow(FOOTPRINT)
        scheduler.kill()
        if dies:
            theirs.kill()
        scheduler = serve()
        Swapper(mine.connect(scheduler)).register(total_bytes=TOTAL).grow(FOOTPRINT)

        def given_up() -> list[object]:
            return [line for line in scheduler.log() if "waits no longer" in str(line["event"])]

        if dies:
            assert not given_up()
        else:
            poll_until(given_up, "it is given up", TIMEOUT_SECONDS)


def test_a_record_is_not_taken_for_another_one(serve: Serve) -> None:
    """Clients of two schedulers are recorded: what ends with the first one's is its own record."""
    with ClientProcess() as theirs, ClientProcess() as others, ClientProcess() as mine:
        scheduler = serve()
        Swapper(theirs.connect(scheduler)).register(total_bytes=TOTAL).grow(FOOTPRINT)
        scheduler.kill()
        scheduler = serve()
        second = Swapper(others.connect(scheduler)).register(total_bytes=TOTAL)
        theirs.kill()
        second.grow(FOOTPRINT)
        scheduler.kill()
        scheduler = serve()
        newcomer = Swapper(mine.connect(scheduler)).register(total_bytes=TOTAL)
        assert newcomer.waits(newcomer.ask(FOOTPRINT))


def test_memory_of_the_dead_is_given_to_others(serve: Serve) -> None:
    """Soon, where no NVML says when it is free."""
    scheduler = serve("--host-memory", "0")
    with ClientProcess() as process:
        dead = Swapper(process.connect(scheduler)).register(total_bytes=TOTAL).grow(FOOTPRINT)
        process.kill()
        dead.client.close()
    swapper(scheduler).grow(FOOTPRINT)


def test_many_leave_nothing_behind(serve: Serve) -> None:
    """No descriptor, after a hundred that came and went with arenas on their way."""
    scheduler = serve("--host-memory", "16GiB")
    stays = swapper(scheduler).grow(FOOTPRINT)

    def open_now() -> int:
        return sum(1 for _ in Path(f"/proc/{scheduler.process.pid}/fd").iterdir())

    def come_and_go(processes: int) -> None:
        for _ in range(processes):
            with ClientProcess() as process:
                for _ in range(10):
                    client = Swapper(process.connect(scheduler)).register(total_bytes=TOTAL)
                    client.ask(FOOTPRINT)
                    client.client.close()
        poll_until(
            lambda: len(scheduler.states()) == 1 and not scheduler.open_arenas(), "all have left", TIMEOUT_SECONDS
        )

    come_and_go(1)
    before = open_now()
    come_and_go(10)
    poll_until(lambda: open_now() <= before, "as many descriptors are open as before", TIMEOUT_SECONDS)
    stays.client.close()
