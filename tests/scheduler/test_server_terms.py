"""Containers and their terms, at a real scheduler: what clients say, what the kernel knows, what the operator sets."""

from __future__ import annotations

import os
from collections.abc import Callable

import grpc
import pytest

from nvshare.admin import admin_pb2, admin_pb2_grpc
from nvshare.protocol import wire
from nvshare.scheduler.gpus.names import gpu_name
from tests.polling import poll_until
from tests.scheduler.wire_client import DEVICE, GIB, OTHER_DEVICE, ClosedError, Scheduler, WireClient

Serve = Callable[..., Scheduler]

NAME = f"train@{os.getuid()}"
OWN = f"pid:{os.getpid()}@{os.getuid()}"


def says(client: WireClient, container: str = "train", **terms: object) -> WireClient:
    """A client tells what its environment asks for."""
    client.send(wire.Terms(container=container, **terms))  # type: ignore[arg-type]
    return client


def shown(scheduler: Scheduler, client: WireClient) -> admin_pb2.Client:
    """What the status says of a client."""
    clients = (each for device in scheduler.status().devices for each in device.clients)
    return next(each for each in clients if each.id == client.client_id)


def until(scheduler: Scheduler, client: WireClient, container: str, **terms: object) -> None:
    """Waits until a client is in a container, on these terms and defaults for the others."""
    default = {"weight": 1.0, "priority": "normal", "when_full": "refuse"}
    wanted = admin_pb2.Terms(**(default | terms))  # type: ignore[arg-type]

    def there() -> bool:
        status = shown(scheduler, client)
        for origin in ("by_command", "by_annotation"):
            status.terms.ClearField(origin)
        return (status.member_of, status.terms) == (container, wanted)

    poll_until(there, f"it is in {container}", 20)


def sets(scheduler: Scheduler, container: str = "train", **changes: object) -> None:
    """What the operator commands."""
    request = admin_pb2.SetTermsRequest(container=container, **changes)  # type: ignore[arg-type]
    scheduler.admin.SetTerms(request, timeout=20)


def test_who_says_nothing(serve: Serve) -> None:
    """A client that says no terms, one of version 1 among them, is in a container with its process's others."""
    scheduler = serve("--legacy-device", gpu_name(DEVICE))
    here, there = scheduler.client().register(), scheduler.client().register(device_uuid=OTHER_DEVICE)
    for client in (here, there):
        until(scheduler, client, OWN)
    old = scheduler.legacy_client().register()
    containers = [each.member_of for device in scheduler.status().devices for each in device.clients]
    assert containers == [OWN] * 3
    assert old.client_id


def test_what_it_says(serve: Serve) -> None:
    """Its name is scoped by its user, and all that it says is shown."""
    scheduler = serve()
    client = scheduler.client().register()
    says(
        client,
        weight_thousandths=2500,
        priority=wire.Priority.HIGH,
        compute_limit_thousandths=300,
        memory_limit_bytes=4 * GIB,
        memory_request_bytes=GIB,
        when_full=wire.WhenFull.WAIT,
        sleep=wire.SleepWhen.IDLE,
    )
    until(
        scheduler,
        client,
        NAME,
        weight=2.5,
        priority="high",
        compute_limit=0.3,
        memory_limit_bytes=4 * GIB,
        memory_request_bytes=GIB,
        when_full="wait",
        sleep="idle",
    )
    assert client.expect(wire.Limit) == wire.Limit(4 * GIB)


def test_the_first_limit_is_the_containers(serve: Serve) -> None:
    """Who it is was found out before it said its terms: it is not told for a moment that it has no limit."""
    scheduler = serve("--host-memory", "8GiB")
    client = scheduler.client().register(wire.Register(DEVICE, 16 * GIB, swaps=True, level=wire.LEVEL))
    client.send(wire.Resident(0, 0, 0))
    client.send(wire.Grow(1, GIB, 0))
    assert client.expect(wire.Allot).request == 1
    says(client, memory_limit_bytes=4 * GIB)
    assert client.expect(wire.Limit) == wire.Limit(4 * GIB)


def test_one_container_on_all_devices(serve: Serve) -> None:
    """What one of its clients says counts for those on other devices; memory is limited on each by itself."""
    scheduler = serve()
    here, there = scheduler.client().register(), scheduler.client().register(device_uuid=OTHER_DEVICE)
    says(here, memory_limit_bytes=4 * GIB)
    says(there)
    until(scheduler, there, NAME, memory_limit_bytes=4 * GIB)
    here.send(wire.Footprint(GIB))
    assert there.expect(wire.Limit) == wire.Limit(4 * GIB)
    until(scheduler, here, NAME, memory_limit_bytes=4 * GIB)
    assert there.has_nothing()


def test_others_of_the_container_are_told_of(serve: Serve) -> None:
    """What a process allocates is told to those that it shares the limit with, but not to one that knows no limits."""
    scheduler = serve()
    first, second, former = (scheduler.client().register() for _ in range(3))
    for client in (first, second):
        says(client, memory_limit_bytes=4 * GIB)
        until(scheduler, client, NAME, memory_limit_bytes=4 * GIB)
    assert [first.expect(wire.Limit), second.expect(wire.Limit)] == [wire.Limit(4 * GIB)] * 2
    first.send(wire.Footprint(GIB))
    assert second.expect(wire.Limit) == wire.Limit(4 * GIB, GIB)
    assert first.has_nothing()
    assert former.has_nothing()


def test_the_first_word_counts(serve: Serve) -> None:
    """What a second process says otherwise is logged once; what the first one did not say, it may."""
    scheduler = serve()
    first = says(scheduler.client().register(), weight_thousandths=2000)
    until(scheduler, first, NAME, weight=2.0)
    second = says(scheduler.client().register(), weight_thousandths=3000, memory_limit_bytes=GIB)
    until(scheduler, second, NAME, weight=2.0, memory_limit_bytes=GIB)
    third = says(scheduler.client().register(), weight_thousandths=4000)
    until(scheduler, third, NAME, weight=2.0, memory_limit_bytes=GIB)
    logged = scheduler.logged("processes of a container ask for different terms: what the first one asked for counts")
    assert [line["container"] for line in logged] == [NAME]
    first.close()
    until(scheduler, second, NAME, weight=3.0, memory_limit_bytes=GIB)


def test_who_says_no_terms_hears_of_no_limit(serve: Serve) -> None:
    """An older library does not know the frame; who says terms late is told then what it missed."""
    scheduler = serve()
    client = scheduler.client().register()
    until(scheduler, client, OWN)
    sets(scheduler, OWN, memory_limit_bytes=4 * GIB)
    until(scheduler, client, OWN, memory_limit_bytes=4 * GIB)
    assert client.has_nothing()
    says(client, "")
    assert client.expect(wire.Limit) == wire.Limit(4 * GIB)


@pytest.mark.parametrize(
    "terms",
    [
        wire.Terms(weight_thousandths=9),
        wire.Terms(weight_thousandths=1_000_001),
        wire.Terms(compute_limit_thousandths=1001),
        wire.Terms(memory_limit_bytes=1 << 60),
    ],
)
def test_terms_that_no_library_says(serve: Serve, terms: wire.Terms) -> None:
    """Whoever says them is disconnected."""
    client = serve().client().register()
    client.send(terms)
    with pytest.raises(ClosedError):
        client.receive()


def test_terms_out_of_turn(serve: Serve) -> None:
    """Before REGISTER, or twice, they are a fault."""
    scheduler = serve()
    client = scheduler.client()
    client.send(wire.Terms())
    with pytest.raises(ClosedError):
        client.receive()
    client = says(says(scheduler.client().register()))
    with pytest.raises(ClosedError):
        client.receive()


def test_the_operator_sets(serve: Serve) -> None:
    """It counts before what processes say, for those that come later as well, until it is taken back."""
    scheduler = serve()
    client = says(scheduler.client().register(), weight_thousandths=2000, memory_limit_bytes=4 * GIB)
    until(scheduler, client, NAME, weight=2.0, memory_limit_bytes=4 * GIB)
    sets(scheduler, NAME, weight=5.0, memory_limit_bytes=2 * GIB, priority="low")
    until(scheduler, client, NAME, weight=5.0, memory_limit_bytes=2 * GIB, priority="low")
    assert [client.expect(wire.Limit).limit_bytes for _ in range(2)] == [4 * GIB, 2 * GIB]
    later = says(scheduler.client().register(), weight_thousandths=2000)
    until(scheduler, later, NAME, weight=5.0, memory_limit_bytes=2 * GIB, priority="low")
    sets(scheduler, taken_back=["weight", "priority", "memory_limit_bytes"])
    until(scheduler, client, NAME, weight=2.0, memory_limit_bytes=4 * GIB)


def test_what_was_set_outlives_the_scheduler(serve: Serve) -> None:
    """After a restart it counts for the container when that is back, and can be taken back before it is."""
    scheduler = serve()
    client = says(scheduler.client().register())
    until(scheduler, client, NAME)
    sets(scheduler, weight=5.0, compute_limit=0.25)
    scheduler.kill()
    scheduler = serve()
    client = says(scheduler.client().register())
    until(scheduler, client, NAME, weight=5.0, compute_limit=0.25)
    scheduler.terminate()
    scheduler = serve()
    sets(scheduler, taken_back=["weight"])
    client = says(scheduler.client().register())
    until(scheduler, client, NAME, compute_limit=0.25)


def test_what_is_set_for_a_process_ends_with_it(serve: Serve) -> None:
    """Another process may have its number."""
    scheduler = serve()
    client = scheduler.client().register()
    until(scheduler, client, OWN)
    sets(scheduler, f"pid:{os.getpid()}", weight=5.0)
    until(scheduler, client, OWN, weight=5.0)
    client.close()
    poll_until(lambda: not scheduler.states(), "it is gone", 20)
    until(scheduler, scheduler.client().register(), OWN)


@pytest.mark.parametrize(
    ("request_", "code", "said"),
    [
        ({"container": "trian"}, grpc.StatusCode.NOT_FOUND, f"container 'trian' is unknown; known containers: {NAME}"),
        ({"weight": 0.0}, grpc.StatusCode.INVALID_ARGUMENT, "weight 0 is not allowed; from 0.01 to 1000 is"),
        ({"priority": "urgent"}, grpc.StatusCode.INVALID_ARGUMENT, "low, normal, high are"),
        ({"compute_limit": 1.5}, grpc.StatusCode.INVALID_ARGUMENT, "from 0.1% to 100% is"),
        ({"memory_limit_bytes": 0}, grpc.StatusCode.INVALID_ARGUMENT, "from 1 to"),
        ({"taken_back": ["colour"]}, grpc.StatusCode.INVALID_ARGUMENT, "'colour' is none of the terms"),
    ],
)
def test_refused(serve: Serve, request_: dict[str, object], code: grpc.StatusCode, said: str) -> None:
    """What is wrong is named, and nothing changes."""
    scheduler = serve()
    client = says(scheduler.client().register())
    until(scheduler, client, NAME)
    with pytest.raises(grpc.RpcError) as error:
        sets(scheduler, **{"container": "train", **request_})  # type: ignore[arg-type]
    assert error.value.code() is code
    assert said in error.value.details()
    until(scheduler, client, NAME)


def test_everybody_may_look_but_not_set(serve: Serve) -> None:
    """The socket for every user refuses it."""
    scheduler = serve()
    with grpc.insecure_channel(f"unix:{scheduler.run_dir.status_socket}") as channel:
        stub = admin_pb2_grpc.AdminStub(channel)
        with pytest.raises(grpc.RpcError) as error:
            stub.SetTerms(admin_pb2.SetTermsRequest(container="x", weight=2.0), timeout=20)
    assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_a_request_above_the_limit(serve: Serve) -> None:
    """Where the operator sets both, the second one is refused; where a process says one of them, the smaller counts."""
    scheduler = serve()
    client = says(scheduler.client().register(), memory_request_bytes=4 * GIB)
    until(scheduler, client, NAME, memory_request_bytes=4 * GIB)
    sets(scheduler, NAME, memory_limit_bytes=2 * GIB)
    until(scheduler, client, NAME, memory_request_bytes=4 * GIB, memory_limit_bytes=2 * GIB)
    with pytest.raises(grpc.RpcError) as caught:
        sets(scheduler, NAME, memory_request_bytes=3 * GIB)
    assert caught.value.details() == "a memory request of 3.0 GiB is above the memory limit of 2.0 GiB"
    sets(scheduler, NAME, memory_request_bytes=2 * GIB)
    until(scheduler, client, NAME, memory_request_bytes=2 * GIB, memory_limit_bytes=2 * GIB)
