"""A real scheduler process grants, revokes and hands over, as its clients see it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from nvshare.admin import admin_pb2
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.wire_client import GIB, OTHER_DEVICE, Scheduler

Serve = Callable[..., Scheduler]


def test_registration_names_the_client_and_the_life(serve: Serve) -> None:
    """Every client gets a number of its own, all get the same epoch, which is not 0."""
    scheduler = serve()
    first, second = scheduler.client().register(), scheduler.client().register()
    assert first.client_id != second.client_id
    assert first.epoch == second.epoch != 0


def test_one_holder_at_a_time_in_the_order_of_asking(serve: Serve) -> None:
    """Under exclusive, each release makes the one who has waited longest the holder, under a new grant."""
    scheduler = serve("--policy", "exclusive")
    clients = [scheduler.client().register() for _ in range(3)]
    grants = [clients[0].lock()]
    for client in clients[1:]:
        client.send(wire.ReqLock())
        poll_until(lambda: scheduler.states()[client.client_id] == "waiting", "it waits")  # noqa: B023
    for holder, following in pairwise(clients):
        assert following.has_nothing()
        if holder is clients[0]:
            holder.expect(wire.Waiters)
        holder.send(wire.LockReleased(grants[-1]))
        grants.append(following.expect(wire.LockOk).grant)
        if following is not clients[-1]:
            following.expect(wire.Waiters)
    assert grants == sorted(set(grants))
    assert scheduler.states() == dict(zip((c.client_id for c in clients), ("idle", "idle", "holding"), strict=True))


def test_drop_lock_at_the_end_of_the_quantum(serve: Serve) -> None:
    """With a waiter the holder is told at once that somebody waits, and asked to leave once its quantum is over.

    Both are clients of one process, so each has half of a quantum.
    """
    scheduler = serve("--policy", "exclusive", "--quantum", "0.6", "--burst", "0")
    holder, waiter = scheduler.client().register(), scheduler.client().register()
    grant = holder.lock()
    waiter.send(wire.ReqLock())
    hint = holder.expect(wire.Waiters)
    assert hint.waiters == 1
    assert 0 < hint.idle_microseconds < 1_000_000
    assert holder.expect(wire.DropLock).grant == grant
    assert scheduler.status().devices[0].clients[0].held_seconds >= 0.3
    assert waiter.has_nothing()
    holder.send(wire.LockReleased(grant))
    waiter.expect(wire.LockOk)


def test_drop_lock_only_for_a_waiter(serve: Serve) -> None:
    """A holder alone keeps the lock beyond its quantum; the first waiter after that is a reason to leave at once."""
    scheduler = serve("--policy", "exclusive", "--quantum", "0.2")
    holder, waiter = scheduler.client().register(), scheduler.client().register()
    grant = holder.lock()
    poll_until(lambda: scheduler.status().devices[0].clients[0].held_seconds > 0.3, "more than a quantum passes")
    assert holder.has_nothing()
    waiter.send(wire.ReqLock())
    assert holder.expect(wire.DropLock).grant == grant


def test_hint_is_taken_back(serve: Serve) -> None:
    """When the only waiter goes, the holder hears that nobody waits any more."""
    scheduler = serve("--policy", "exclusive")
    holder, waiter = scheduler.client().register(), scheduler.client().register()
    holder.lock()
    waiter.send(wire.ReqLock())
    assert holder.expect(wire.Waiters).waiters == 1
    waiter.close()
    assert holder.expect(wire.Waiters) == wire.Waiters(0, 0)


def test_holder_that_ends_frees_the_lock(serve: Serve) -> None:
    """A closed connection is a release."""
    scheduler = serve("--policy", "exclusive")
    holder, waiter = scheduler.client().register(), scheduler.client().register()
    holder.lock()
    waiter.send(wire.ReqLock())
    holder.expect(wire.Waiters)
    holder.close()
    waiter.expect(wire.LockOk)
    assert list(scheduler.states().values()) == ["holding"]


def test_clients_that_fit_hold_together(serve: Serve) -> None:
    """Under auto two clients that fit the device together both hold, and a third that does not waits."""
    scheduler = serve()
    small = [scheduler.client().register(footprint_bytes=4 * GIB) for _ in range(2)]
    for client in small:
        client.lock()
    large = scheduler.client().register(footprint_bytes=12 * GIB)
    large.send(wire.ReqLock())
    small[0].expect(wire.Waiters)
    assert large.has_nothing()
    large.send(wire.Footprint(1 * GIB))
    large.expect(wire.LockOk)


def test_a_device_is_as_large_as_the_smallest_claim(serve: Serve) -> None:
    """Where NVML does not say it. A client that lies counts until it goes."""
    scheduler = serve()
    scheduler.client().register(total_bytes=1024 * GIB)
    scheduler.client().register(total_bytes=16 * GIB)
    assert scheduler.status().devices[0].total_bytes == 16 * GIB
    liar = scheduler.client().register(total_bytes=1)
    assert scheduler.status().devices[0].total_bytes == 1
    liar.close()
    poll_until(lambda: scheduler.status().devices[0].total_bytes == 16 * GIB, "the liar's word is forgotten")


def test_devices_are_independent(serve: Serve) -> None:
    """A holder on one device is in nobody's way on another."""
    scheduler = serve("--policy", "exclusive")
    here, there = scheduler.client().register(), scheduler.client().register(device_uuid=OTHER_DEVICE)
    here.lock()
    there.lock()
    assert here.has_nothing()
    assert [device.uuid for device in scheduler.status().devices] == [
        "GPU-6e767368-6172-6500-0000-000000000001",
        "GPU-6e767368-6172-6500-0000-000000000002",
    ]


def test_policy_off_lets_everyone_run(serve: Serve) -> None:
    """Under off every request is granted; back under exclusive the surplus holders are asked to leave."""
    scheduler = serve("--policy", "off")
    clients = [scheduler.client().register() for _ in range(3)]
    grants = [client.lock() for client in clients]
    scheduler.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="exclusive"))
    for client, grant in list(zip(clients, grants, strict=True))[1:]:
        assert client.expect(wire.DropLock).grant == grant
    assert clients[0].has_nothing()
