"""The scheduler dies; nobody is granted beside those who held, and they come back with what they have."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from nvshare import scheduler_process
from nvshare.protocol import wire
from nvshare.protocol.legacy import LegacyType
from tests.polling import poll_until
from tests.scheduler.client_process import ClientProcess
from tests.scheduler.wire_client import OTHER_DEVICE, Scheduler

Serve = Callable[..., Scheduler]
Spawn = Callable[[], ClientProcess]

DEVICE_NAME = "GPU-6e767368-6172-6500-0000-000000000001"
HUGE_GRANT = (1 << 63) - 1


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts processes that can be clients; each is killed after the test."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(ClientProcess())


def crash(serve: Serve, holder: ClientProcess) -> int:
    """The holder's grant, when the scheduler is killed under it."""
    scheduler = serve("--policy", "exclusive")
    client = holder.connect(scheduler).register()
    grant = client.lock()
    scheduler.kill()
    client.close()
    return grant


def recovering(scheduler: Scheduler, device: int = 0) -> bool:
    """Whether a device waits for holders of the scheduler before."""
    return scheduler.status().devices[device].recovering


def test_state_is_rebuilt(serve: Serve, spawn: Spawn) -> None:
    """A waiter that is back first gets nothing while a holder may still come, and then waits for it."""
    process = spawn()
    grant = crash(serve, process)
    scheduler = serve("--policy", "exclusive", "--quantum", "0.1")
    waiter = scheduler.client().register(state=wire.State.WAITING)
    assert recovering(scheduler)
    holder = process.connect(scheduler).register(state=wire.State.HOLDING, grant=grant)
    assert set(scheduler.states().values()) == {"waiting", "holding"}
    assert not recovering(scheduler)
    assert holder.expect(wire.Waiters).waiters == 1
    assert holder.expect(wire.DropLock).grant == grant
    assert waiter.has_nothing()
    holder.send(wire.LockReleased(grant))
    assert waiter.expect(wire.LockOk).grant > grant


def test_a_stopped_holder_keeps_its_device(serve: Serve, spawn: Spawn) -> None:
    """It may run on at any moment: the status names it, and only its death lets others in."""
    process = spawn()
    crash(serve, process)
    process.stop()
    scheduler = serve("--policy", "exclusive")
    waiter = scheduler.client().register(state=wire.State.WAITING)
    other = scheduler.client().register(device_uuid=OTHER_DEVICE)
    [line] = scheduler.logged(
        "a client of the former scheduler holds the lock; its device waits until it is back or has ended"
    )
    assert (line["pid"], line["device"]) == (process.process.pid, DEVICE_NAME)
    other.lock()
    assert recovering(scheduler)
    [awaited] = scheduler.status().devices[0].awaited
    assert awaited.pid == process.process.pid
    # What it said of itself, or what the kernel says, whichever was known when it was granted.
    assert awaited.command
    assert waiter.has_nothing()
    process.kill()
    waiter.expect(wire.LockOk)
    assert not recovering(scheduler)


def test_a_holder_that_died_meanwhile_is_not_waited_for(serve: Serve, spawn: Spawn) -> None:
    """There is no time to wait: its process is gone."""
    process = spawn()
    crash(serve, process)
    process.kill()
    scheduler = serve("--policy", "exclusive")
    scheduler.client().register(state=wire.State.WAITING).expect(wire.LockOk)


def test_a_holder_that_comes_back_draining_is_let_drain(serve: Serve, spawn: Spawn) -> None:
    """It gives back what it held, without having been asked again, and then the waiter runs."""
    process = spawn()
    grant = crash(serve, process)
    scheduler = serve("--policy", "exclusive", "--quantum", "0.01")
    waiter = scheduler.client().register(state=wire.State.WAITING)
    holder = process.connect(scheduler).register(state=wire.State.DRAINING, grant=grant)
    assert scheduler.states() == {waiter.client_id: "waiting", holder.client_id: "leaving"}
    assert waiter.has_nothing()
    assert holder.has_nothing()
    holder.send(wire.LockReleased(grant))
    holder.send(wire.ReqLock())
    waiter.expect(wire.LockOk)


def test_a_holder_that_comes_back_idle_holds_nothing(serve: Serve, spawn: Spawn) -> None:
    """What it says now is the truth, in the record too."""
    process = spawn()
    crash(serve, process)
    scheduler = serve("--policy", "exclusive")
    process.connect(scheduler).register()
    scheduler.client().register().lock()


def test_a_scheduler_that_ended_before_anybody_came_back(serve: Serve, spawn: Spawn) -> None:
    """The record is left to the next one, after a clean stop as after a crash."""
    process = spawn()
    grant = crash(serve, process)
    scheduler = serve("--policy", "exclusive")
    assert recovering(scheduler)
    assert scheduler.terminate() == 0
    scheduler = serve("--policy", "exclusive")
    waiter = scheduler.client().register(state=wire.State.WAITING)
    assert recovering(scheduler)
    holder = process.connect(scheduler).register(state=wire.State.HOLDING, grant=grant)
    scheduler.kill()
    holder.close()
    waiter.close()
    scheduler = serve("--policy", "exclusive")
    scheduler.client().register()
    assert recovering(scheduler), "who came back once is recorded still"


def test_who_does_not_hold_is_not_waited_for(serve: Serve, spawn: Spawn) -> None:
    """One that released, one that waited, and one that ended: the first grant comes at once."""
    scheduler = serve("--policy", "exclusive")
    process = spawn()
    released, waiter, ended = (each.connect(scheduler).register() for each in (spawn(), spawn(), process))
    released.send(wire.LockReleased(released.lock()))
    ended.lock()
    waiter.send(wire.ReqLock())
    ended.expect(wire.Waiters)
    waiter.close()
    poll_until(lambda: len(scheduler.states()) == 2, "the waiter is gone")
    process.kill()
    ended.close()
    poll_until(lambda: len(scheduler.states()) == 1, "the holder is gone")
    scheduler.kill()
    released.close()
    scheduler = serve("--policy", "exclusive")
    client = scheduler.client().register()
    assert not recovering(scheduler)
    client.lock()


def test_a_holder_that_lost_its_connection_is_waited_for(serve: Serve, spawn: Spawn) -> None:
    """A program closes files that it does not know; what it submitted runs on until it is back and gives way."""
    scheduler = serve("--policy", "exclusive")
    program = spawn()
    holder = program.connect(scheduler).register()
    grant = holder.lock()
    waiter = scheduler.client().register()
    waiter.send(wire.ReqLock())
    holder.expect(wire.Waiters)
    holder.close()
    poll_until(lambda: recovering(scheduler), "its device waits")
    assert waiter.has_nothing()
    holder = program.connect(scheduler).register(state=wire.State.HOLDING, grant=grant)
    holder.expect(wire.Waiters)
    assert not recovering(scheduler)
    assert waiter.has_nothing()
    holder.send(wire.LockReleased(grant))
    waiter.expect(wire.LockOk)


def test_a_holder_that_died_is_not_waited_for(serve: Serve, spawn: Spawn) -> None:
    """Nor one that never comes back, when its time is over."""
    scheduler = serve("--policy", "exclusive")
    program = spawn()
    holder = program.connect(scheduler).register()
    holder.lock()
    waiter = scheduler.client().register()
    waiter.send(wire.ReqLock())
    holder.expect(wire.Waiters)
    holder.close()
    poll_until(lambda: recovering(scheduler), "its device waits")
    program.kill()
    waiter.expect(wire.LockOk)
    assert not any("did not come back" in str(line["event"]) for line in scheduler.log())


@pytest.mark.parametrize("grant", [1, HUGE_GRANT])
def test_a_false_claim_gains_nothing(serve: Serve, grant: int) -> None:
    """It passes no waiter, stops no holder and changes no number; the process's second one blocks nobody."""
    scheduler = serve("--policy", "exclusive")
    liar = scheduler.client().register(state=wire.State.HOLDING, grant=grant)
    assert liar.expect(wire.DropLock).grant == grant
    honest = scheduler.client().register(state=wire.State.WAITING)
    assert honest.has_nothing()
    liar.close()
    assert honest.expect(wire.LockOk).grant == 1
    again = scheduler.client().register(state=wire.State.HOLDING, grant=grant)
    again.expect(wire.DropLock)
    assert scheduler.states() == {honest.client_id: "holding", again.client_id: "idle"}
    again.send(wire.LockReleased(grant))
    again.send(wire.ReqLock())
    assert honest.expect(wire.Waiters).waiters == 1
    honest.send(wire.LockReleased(1))
    assert again.expect(wire.LockOk).grant == 2


def test_a_thief_of_a_recorded_grant(serve: Serve, spawn: Spawn) -> None:
    """Another process claims the recorded grant: the device goes on waiting for the one that has it."""
    process = spawn()
    grant = crash(serve, process)
    scheduler = serve("--policy", "exclusive")
    thief = scheduler.client().register(state=wire.State.HOLDING, grant=grant)
    thief.expect(wire.DropLock)
    thief.send(wire.LockReleased(grant))
    assert recovering(scheduler)
    holder = process.connect(scheduler).register(state=wire.State.HOLDING, grant=grant)
    assert scheduler.states() == {thief.client_id: "idle", holder.client_id: "holding"}


def test_who_ran_without_a_scheduler_is_not_overlapped(serve: Serve) -> None:
    """Grant 0 is no lie: such a client drains at once, and nobody is granted before it has."""
    scheduler = serve("--policy", "exclusive")
    runs = scheduler.client().register(state=wire.State.HOLDING, grant=0)
    waiter = scheduler.client().register(state=wire.State.WAITING)
    assert runs.expect(wire.DropLock).grant == 0
    assert waiter.has_nothing()
    runs.send(wire.LockReleased(0))
    waiter.expect(wire.LockOk)


def test_a_version_1_holder_is_waited_for(serve: Serve, spawn: Spawn) -> None:
    """It never comes back with its state; when its process has ended, the device is free."""
    scheduler = serve("--policy", "exclusive", "--legacy-device", DEVICE_NAME)
    old = scheduler.legacy_client().register()
    old.send(LegacyType.REQ_LOCK)
    old.expect(LegacyType.LOCK_OK)
    scheduler.kill()
    scheduler = serve("--policy", "exclusive")
    assert recovering(scheduler)
    assert scheduler.status().devices[0].awaited[0].pid == os.getpid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a pid namespace")
def test_a_scheduler_that_sees_no_pids(
    serve: Serve, tool: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container of its own it waits for a time instead, says so, and takes the number of a grant as a proof."""
    command, unshare = scheduler_process.command, [tool("unshare"), "--pid", "--fork", "--kill-child"]
    monkeypatch.setattr(scheduler_process, "command", lambda *arguments: [*unshare, *command(*arguments)])
    scheduler = serve("--policy", "exclusive")
    grant = scheduler.client().register().lock()
    scheduler.kill()
    poll_until(lambda: is_free(scheduler), "it has ended")
    scheduler = serve("--policy", "exclusive")
    scheduler.client().register(state=wire.State.HOLDING, grant=grant)
    assert set(scheduler.states().values()) == {"holding"}
    scheduler.kill()
    poll_until(lambda: is_free(scheduler), "it has ended")
    scheduler = serve("--policy", "exclusive")
    scheduler.client().register(state=wire.State.WAITING).expect(wire.LockOk)
    [line] = poll_until(
        lambda: [line for line in scheduler.log() if "did not come back" in str(line["event"])], "it says so"
    )
    assert (line["level"], line["grant"]) == ("warning", grant)


def is_free(scheduler: Scheduler) -> bool:
    """Whether nobody has claimed the run directory."""
    descriptor = os.open(scheduler.run_dir.root, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
