"""Processes with a client on each of two GPUs: they sleep and wake on both."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.actions import Allot, Evict, Grant, GrowArena, Revoke, Sleep, TellWaiters, Wake
from nvshare.scheduler.core.events import (
    ArenaGrown,
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    ContainerFound,
    DeviceSeen,
    Event,
    GrowthRequested,
    LockReleased,
    LockRequested,
    MemoryFreed,
    PinnedMeasured,
    ResidencyReported,
)
from nvshare.scheduler.core.records.process import REST_SECONDS
from nvshare.scheduler.core.sleep_events import FellAsleep, SleepAsked, SleepOffered, WakeWanted, Woke
from nvshare.scheduler.core.snapshot import ShownState
from nvshare.scheduler.core.terms import SleepWhen, Terms
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, TOTAL, Table
from tests.scheduler.core.sleep.sleepers import OTHER, sleepers


def wide(table: Table, process: int, device: str) -> int:
    """A client of a process with several devices; it has nothing but a context."""
    number = 10 * process + (device == OTHER)
    table.feed(ClientRegistered(number, device, 0, ClaimedState.IDLE, backend=Backend.SWAP))
    table.feed(ResidencyReported(number, 0, 0, 0))
    table.feed(GrowthRequested(number, 1, 0, 0))
    table.feed(ResidencyReported(number, 1, 0, 0))
    table.feed(PinnedMeasured(number, GIB))
    table.feed(SleepOffered(number, process))
    return number


def test_one_of_its_clients_is_back_while_others_wait_for_room() -> None:
    """It asks for room as they do: else the process would wait for it for ever."""
    table = sleepers("", context=1)
    table.feed(DeviceSeen(OTHER, TOTAL * GIB))
    cut, _ = wide(table, 5, DEVICE), wide(table, 5, OTHER)
    table.feed(SleepAsked(5))
    table.feed(FellAsleep(5))
    table.feed(ClientRegistered(9, OTHER, GIB, ClaimedState.IDLE, backend=Backend.SWAP))
    table.feed(ResidencyReported(9, 0, GIB, GIB))
    table.feed(PinnedMeasured(9, GIB))
    table.measures = False
    table.feed(DeviceSeen(OTHER, TOTAL * GIB, (TOTAL - 3) * GIB + GIB // 2))
    assert wakes_of(table, WakeWanted(5)) == []
    table.feed(ClientGone(cut))
    table.feed(ClientRegistered(7, DEVICE, 0, ClaimedState.IDLE, backend=Backend.SWAP))
    table.feed(SleepOffered(7, 5, GIB))
    table.feed(ResidencyReported(7, 0, 0, 0))
    table.feed(MemoryFreed(cut))
    said = wakes_of(table, DeviceSeen(OTHER, TOTAL * GIB)) + wakes_of(table, DeviceSeen(DEVICE, TOTAL * GIB))
    assert said + wakes_of(table, DeviceSeen(OTHER, TOTAL * GIB)) == [Wake(5, (51, 7))]


def wakes_of(table: Table, event: Event) -> list[Wake]:
    return [action for action in table.core.handle(event, table.now) if isinstance(action, Wake)]


def test_it_gives_way_on_one_of_its_devices() -> None:
    """As long as it may have to sleep it is granted no lock on the other one either, where nobody lacks anything."""
    table = sleepers("", context=1)
    table.feed(DeviceSeen(OTHER, TOTAL * GIB, 12 * GIB - GIB // 4))
    wide(table, 5, DEVICE)
    for process in range(5, 9):
        wide(table, process, OTHER)
    table.feed(ClientRegistered(7, OTHER, 0, ClaimedState.IDLE, backend=Backend.SWAP))
    table.feed(ResidencyReported(7, 0, 0, 0))
    table.core.handle(GrowthRequested(7, 1, 0, 0), 0.5)
    assert not [action for action in table.core.handle(LockRequested(50), 0.6) if isinstance(action, Grant)]
    # Others are idle, and it waits by now.
    assert Sleep(6, (61,)) in table.core.handle_timer(1.0)


def test_it_gives_back_the_lock_of_another_device_to_sleep() -> None:
    """All are idle where somebody lacks room for a context, and have the lock of the other device, which nobody wants:
    the one whose turn there is over first gives that back, and no other one."""
    table = sleepers("", context=1)
    table.feed(DeviceSeen(OTHER, TOTAL * GIB, 12 * GIB - GIB // 4))
    core = table.core
    for process in range(5, 9):
        holder = wide(table, process, DEVICE)
        wide(table, process, OTHER)
        assert core.handle(LockRequested(holder), process / 10) == [Grant(holder, process - 4)]
    core.handle(ClientRegistered(7, OTHER, 0, ClaimedState.IDLE, backend=Backend.SWAP), 1.0)
    core.handle(SleepOffered(7, 7), 1.0)
    core.handle(ResidencyReported(7, 0, 0, 0), 1.0)
    assert TellWaiters(50, 1, 0.02) in core.handle(GrowthRequested(7, 1, 0, 0), 1.0)
    asked: list[Revoke] = []
    while not asked:
        now = core.deadline() or 0.0
        asked = [action for action in core.handle_timer(now) if isinstance(action, Revoke)]
    assert (now, asked) == (30.5, [Revoke(50, 1)])
    core.handle(LockReleased(50, 1), 30.6)
    said = core.handle_timer(30.6 + REST_SECONDS)
    assert said == [Sleep(5, (50, 51))]
    assert Allot in map(type, core.handle(FellAsleep(5), 32.0))


def test_a_process_sleeps_and_wakes_on_all_of_its_devices() -> None:
    """And of two such only one comes back at a time."""
    table = sleepers("", context=1)
    table.feed(DeviceSeen(OTHER, TOTAL * GIB))
    core = table.core
    clients = {process: [wide(table, process, device) for device in (DEVICE, OTHER)] for process in (5, 6)}
    for process in clients:
        said = core.handle(SleepAsked(process), 1.0)
        assert [str(action) for action in said] == [f"Sleep(process={process}, clients={tuple(clients[process])})"]
        core.handle(FellAsleep(process), 1.0)
    states = {core.client(number, 1.0).state for numbers in clients.values() for number in numbers}
    assert states == {ShownState.ASLEEP}
    # There is room for one context on the second device.
    seen = DeviceSeen(OTHER, TOTAL * GIB, 14 * GIB + GIB // 2)
    core.handle(seen, 2.0)
    core.handle(WakeWanted(5), 2.0)
    core.handle(WakeWanted(6), 2.0)
    said = [*core.handle(DeviceSeen(DEVICE, TOTAL * GIB), 2.1), *core.handle(seen, 2.1)]
    assert [action for action in said if isinstance(action, Wake)] == [Wake(5, tuple(clients[5]))]
    core.handle(Woke(5), 3.0)
    assert {core.client(number, 3.0).state for number in clients[5]} == {ShownState.IDLE}
    assert {core.client(number, 3.0).state for number in clients[6]} == {ShownState.WAKING}
    for number in clients[5]:
        core.handle(PinnedMeasured(number, GIB), 3.0)
        core.handle(ResidencyReported(number, 2, 0, 0), 3.0)
    assert core.handle_timer(core.deadline() or 0.0) == [Sleep(5, tuple(clients[5]))]


def test_who_waits_for_ends_on_one_of_its_devices_keeps_nothing_of_the_other() -> None:
    """There is no room for its context on the second one; another one wakes beside it, and it does when there is."""
    table = sleepers("", context=1)
    table.feed(DeviceSeen(OTHER, TOTAL * GIB))
    core = table.core
    clients = {process: [wide(table, process, device) for device in (DEVICE, OTHER)] for process in (5, 6)}
    core.handle(PinnedMeasured(clients[5][1], 4 * GIB), 1.0)
    for process in clients:
        core.handle(SleepAsked(process), 1.0)
        core.handle(FellAsleep(process), 1.0)
    core.handle(ClientRegistered(7, OTHER, 12 * GIB, ClaimedState.IDLE, backend=Backend.NATIVE), 2.0)
    core.handle(PinnedMeasured(7, GIB), 2.0)
    assert wakes_of(table, WakeWanted(5)) == []
    kept_out = [core.client(number, 2.0) for number in clients[5]]
    assert [client.pinned_bytes for client in kept_out] == [0, 0]
    assert all(client.swap and "others have to end" in client.swap.wait for client in kept_out)
    measured = DeviceSeen(DEVICE, TOTAL * GIB), DeviceSeen(OTHER, TOTAL * GIB)
    for events, process in ([WakeWanted(6)], 6), ([ClientGone(7), MemoryFreed(7)], 5):
        said = [wakes_of(table, each) for each in (*events, *measured)]
        assert said[-1] == [Wake(process, tuple(clients[process]))]
        assert not wakes_of(table, Woke(process))
    assert all((swap := core.client(number, 2.0).swap) and not swap.wait for number in clients[5])


@pytest.mark.parametrize("devices", [(OTHER,), (DEVICE, OTHER)])
def test_who_is_overtaken_on_its_way_back_waits_for_ends(devices: tuple[str, ...]) -> None:
    """It had room for its context; a program whose memory does not swap takes that before it is awake."""
    table = sleepers("", context=1)
    table.feed(DeviceSeen(OTHER, TOTAL * GIB))
    core, clients = table.core, [wide(table, 5, device) for device in devices]
    core.handle(PinnedMeasured(clients[-1], 4 * GIB), 1.0)
    core.handle(SleepAsked(5), 1.0)
    core.handle(FellAsleep(5), 1.0)
    assert wakes_of(table, WakeWanted(5)) == []
    seen = DeviceSeen(DEVICE, TOTAL * GIB), DeviceSeen(OTHER, TOTAL * GIB)
    comes = ClientRegistered(7, OTHER, 12 * GIB, ClaimedState.IDLE, backend=Backend.NATIVE), PinnedMeasured(7, GIB)
    assert not any(wakes_of(table, event) for event in (*comes, *seen))
    kept_out = [core.client(number, 2.0) for number in clients]
    assert [client.pinned_bytes for client in kept_out] == [0] * len(clients)
    assert {client.swap and client.swap.wait for client in kept_out} == {
        "4096 MiB more that can't move would not fit the device; others have to end"
    }
    assert [wakes_of(table, event) for event in (ClientGone(7), MemoryFreed(7), *seen)][-1] == [Wake(5, tuple(clients))]


def test_who_is_gone_on_one_gpu_holds_nothing_up_on_the_other() -> None:
    """Its process was to sleep next for one that lacks room there."""
    table = sleepers("", context=1)
    table.feed(DeviceSeen(OTHER, TOTAL * GIB, 12 * GIB - GIB // 4))
    first, second = (wide(table, 5, device) for device in (DEVICE, OTHER))
    for process in range(6, 9):
        wide(table, process, OTHER)
    table.feed(ClientRegistered(7, OTHER, 0, ClaimedState.IDLE, backend=Backend.SWAP))
    table.feed(ResidencyReported(7, 0, 0, 0))
    table.core.handle(GrowthRequested(7, 1, 0, 0), 0.5)
    assert not [action for action in table.core.handle(LockRequested(first), 0.6) if isinstance(action, Grant)]
    said = table.core.handle(ClientGone(second), 0.6)
    assert [action.client for action in said if isinstance(action, Grant)] == [first]


def test_who_need_not_sleep_any_more_has_its_turn_on_the_other_gpu() -> None:
    """It was to sleep next for one that lacked room on the second, which is gone."""
    table = sleepers("", context=1)
    table.feed(DeviceSeen(OTHER, TOTAL * GIB, 12 * GIB - GIB // 4))
    first, _ = wide(table, 5, DEVICE), wide(table, 5, OTHER)
    for process in range(6, 9):
        wide(table, process, OTHER)
    table.feed(ClientRegistered(7, OTHER, 0, ClaimedState.IDLE, backend=Backend.SWAP))
    table.feed(ResidencyReported(7, 0, 0, 0))
    table.core.handle(GrowthRequested(7, 1, 0, 0), 0.5)
    assert not [action for action in table.core.handle(LockRequested(first), 0.6) if isinstance(action, Grant)]
    said = table.core.handle(ClientGone(7), 0.7)
    assert [action.client for action in said if isinstance(action, Grant)] == [first]


def test_who_is_to_rest_hears_it_on_both_gpus() -> None:
    """It holds the lock of the first one; what is said concerns its client on the second, in another account."""
    table = sleepers("", context=1)
    table.feed(DeviceSeen(OTHER, TOTAL * GIB))
    core, terms = table.core, Terms(sleep=SleepWhen.IDLE)
    first = wide(table, 5, DEVICE)
    core.handle(ContainerFound(first, "pod", terms), 0.0)
    assert TellWaiters(first, 0, REST_SECONDS) in core.handle(LockRequested(first), 0.0)
    table.feed(ClientRegistered(51, OTHER, 0, ClaimedState.IDLE, backend=Backend.SWAP))
    assert core.handle(SleepOffered(51, 5), 0.0) == [TellWaiters(first, 0, 0.0)]
    assert core.handle(ContainerFound(51, "claim", terms), 0.0) == [TellWaiters(first, 0, REST_SECONDS)]


def test_host_memory_that_is_kept_no_more_on_one_gpu_is_made_on_the_other() -> None:
    """As much is kept as the largest one needs to fall asleep. That needs less from now on; on the other GPU one lacks
    half a GiB."""
    core = sleepers("", context=1, host=4, file=100).core
    core.handle(DeviceSeen(OTHER, TOTAL * GIB, 14 * GIB), 0.0)
    for number, device, size in (1, DEVICE, 3 * GIB), (2, OTHER, 3 * GIB // 2):
        core.handle(ClientRegistered(number, device, size, ClaimedState.IDLE, backend=Backend.SWAP), 0.0)
        core.handle(SleepOffered(number, number), 0.0)
        said = core.handle(ResidencyReported(number, 0, size, size, admitted_bytes=size), 0.0)
    assert said == [GrowArena(2, GIB)]
    assert [type(each) for each in core.handle(ArenaGrown(2, GIB), 0.0)] == [Evict]
    core.handle(ResidencyReported(1, 0, GIB, GIB, admitted_bytes=3 * GIB), 0.0)
    allots = [each for each in core.handle(DeviceSeen(DEVICE, TOTAL * GIB, 12 * GIB), 0.0) if isinstance(each, Allot)]
    assert [each.admitted_bytes for each in allots] == [2 * GIB]
    core.handle(ResidencyReported(1, allots[0].order, GIB, GIB, admitted_bytes=2 * GIB), 0.0)
    core.handle(DeviceSeen(DEVICE, TOTAL * GIB), 0.0)
    assert core.handle(WakeWanted(1), 0.0) == [GrowArena(2, GIB // 2)]
