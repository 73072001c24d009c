"""How many virtual devices there is memory for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.admin import admin_pb2
from nvshare.deviceplugin.servable import Pod, Room, Servable
from nvshare.deviceplugin.settled import SETTLED_SECONDS

GIB = 1 << 30
DEVICES = 10


def room(*promised: float, outside: float = 0, device: float = 16, host: float = 16, host_left: float = 32) -> Room:
    """A GPU's memory, in GiB, with pods that were ``promised`` so much; host memory is for two GPUs."""
    pods = [Pod(frozenset({number}), round(each * GIB)) for number, each in enumerate(promised, 1)]
    sizes = (round(each * GIB) for each in (device, host, host_left))
    return Room(*sizes, tuple(pods), round(outside * GIB))


@pytest.mark.parametrize("held", range(DEVICES + 1))
def test_idle_pods_take_away_nothing(held: int) -> None:
    """However many there are, all devices are offered: each has its part."""
    assert room(*[0.1] * held).offered(DEVICES) == DEVICES
    assert room(*[0.1] * held, device=15.9, host=0, host_left=0).offered(DEVICES) == DEVICES


@pytest.mark.parametrize(
    ("now", "offered"),
    [
        # The part of each of the ten is 3.2 GiB.
        (room(3.2), 10),
        (room(12), 7),
        (room(12, 12), 5),
        (room(15, 15.2), 3),
        (room(16, 16), 2),
        # Idle pods beside one that has more than its part take away nothing more.
        (room(12, 0, 0, 0), 7),
        (room(12, 0, 0, 0, 0, 0, 0), 7),
        (room(12, 0, 0, 0, 0, 0, 0, 0), 8),
        # Pods whose clients are here before kubelet tells of their devices.
        (replace(room(), pods=(Pod(frozenset(), 3 * GIB),) * 4), 10),
        # What waits for memory is promised, too.
        (room(20, 20, 20, 20, 10, 10), 6),
        # Programs in no pod.
        (room(outside=32), 0),
        (room(0, outside=16), 5),
        # Others have promised themselves the host's memory.
        (room(8, host_left=0), 4),
        (room(16, host_left=0), 1),
        # Nothing is swapped: the part of each is 1.6 GiB.
        (room(12, host=0, host_left=0), 4),
        (room(6, 6, 4, host=0, host_left=0), 3),
        # Others, who are no clients, have all of the GPU.
        (room(0, 0, device=0, host=0, host_left=0), 2),
    ],
)
def test_for_what_is_left_further_ones_are_offered(now: Room, offered: int) -> None:
    """To the nearest number."""
    assert now.offered(DEVICES) == offered


sizes = st.integers(0, 1 << 41)


@given(sizes, sizes, sizes, sizes, st.data())
def test_never_fewer_than_are_held(device: int, host: int, host_left: int, outside: int, data: st.DataObject) -> None:
    """Nor more than there are; and a promise more never makes it more."""
    count = data.draw(st.integers(1, 1000))
    held = sorted(data.draw(st.frozensets(st.integers(1, count))))
    pods = tuple(Pod(frozenset({ordinal}), data.draw(sizes)) for ordinal in held[:5])
    now = Room(device, host, host_left, pods, outside)
    offered = now.offered(count)
    assert len(pods) <= offered <= count
    assert replace(now, outside_bytes=outside + GIB).offered(count) <= offered
    if pods:
        more = replace(pods[0], promised_bytes=pods[0].promised_bytes + GIB)
        assert replace(now, pods=(more, *pods[1:])).offered(count) <= offered


@given(st.lists(st.integers(0, 12 * GIB), max_size=8), st.integers(0, 3 * GIB))
def test_who_takes_one_that_is_offered_changes_nothing(promised: list[int], little: int) -> None:
    """A pod that comes and wants no more than its part leaves the number as it is, also before kubelet tells of it."""
    now = room(*(each / GIB for each in promised))
    offered = now.offered(DEVICES)
    if len(promised) < offered:
        for held in (frozenset({DEVICES}), frozenset[int]()):
            assert replace(now, pods=(*now.pods, Pod(held, little))).offered(DEVICES) == offered


def client(footprint: float, *, swaps: bool = True, **values: float) -> admin_pb2.Client:
    """A client with so many GiB; ``values`` are those of its swap, in GiB as well."""
    shown = admin_pb2.Client(
        footprint_bytes=round(footprint * GIB), pinned_bytes=GIB // 4, backend="swap" if swaps else "managed"
    )
    if swaps:
        shown.swap.CopyFrom(admin_pb2.Swap(**{f"{name}_bytes": round(value * GIB) for name, value in values.items()}))
    return shown


def device(uuid: str, *clients: admin_pb2.Client, held: int = 0) -> admin_pb2.Device:
    return admin_pb2.Device(
        uuid=uuid,
        total_bytes=18 * GIB,
        reserve_bytes=GIB,
        foreign_bytes=GIB,
        clients=clients,
        allocations=[
            admin_pb2.Allocation(
                identity=admin_pb2.Identity(namespace="n", pod=f"p{number}", container="c"),
                virtual_device_ids=[f"GPU-{uuid}__{number}"],
            )
            for number in range(1, held + 1)
        ],
    )


def status(*devices: admin_pb2.Device) -> admin_pb2.Status:
    return admin_pb2.Status(devices=devices, host_memory_bytes=32 * GIB, knows_allocations=True)


class Bench:
    """What is withheld of GPU a, beside GPU b, as the scheduler's status and the time go on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.status: admin_pb2.Status | None = None
        self.servable = Servable(lambda: self.status, lambda: self.now)

    def says(self, *clients: admin_pb2.Client, held: int = 0) -> None:
        self.status = status(device("a", *clients, held=held), device("b"))

    def withheld(self) -> list[int]:
        return sorted(self.servable.withheld("a", DEVICES))

    def room(self) -> Room:
        found = self.servable.room("a")
        assert found is not None
        return found


def test_what_is_promised() -> None:
    """What clients may allocate unasked or have, what can't move, and what they wait for; managed memory is not."""
    bench = Bench()
    bench.says(client(3, admitted=4, fixed=1), client(2, admitted=1, wanted=8), client(50, swaps=False))
    assert bench.room() == room(outside=5 + 2 + 8 + 0.75)
    native = client(2, swaps=False)
    native.backend = "native"
    bench.status = status(device("a", native), device("b", client(20, admitted=20)))
    assert bench.room() == room(outside=2.25, host_left=32 - 4.25)


def test_whose_it_is() -> None:
    """Of the pod in which a client is, as far as that is known of it; all clients of a pod count together."""
    bench = Bench()
    clients = [client(number, admitted=number) for number in (1, 2, 3, 4, 5)]
    who = [("n", "p1", "c"), ("", "p1", ""), ("m", "p1", "c"), ("n", "p2", "d"), ("", "", "")]
    for each, (namespace, pod, container) in zip(clients, who, strict=True):
        each.identity.CopyFrom(admin_pb2.Identity(namespace=namespace, pod=pod, container=container))
    bench.says(*clients, held=2)
    first, second, third = bench.room().pods
    assert first == Pod(frozenset({1}), round(3.5 * GIB))
    assert second == Pod(frozenset({2}), round(4.25 * GIB))
    assert third == Pod(frozenset(), round(3.25 * GIB))
    assert bench.room().outside_bytes == round(5.25 * GIB)


def test_it_changes_when_it_has_settled() -> None:
    """What comes and goes again within seconds changes nothing. The highest that nobody holds are withheld."""
    bench = Bench()
    bench.says()
    assert bench.withheld() == []
    bench.says(client(16, admitted=16), held=2)
    assert bench.withheld() == []
    bench.now += SETTLED_SECONDS
    assert bench.withheld() == [6, 7, 8, 9, 10]
    assert bench.status is not None
    bench.status.devices[0].allocations[1].virtual_device_ids[0] = "GPU-a__9"
    bench.now += SETTLED_SECONDS
    assert bench.withheld() == [5, 6, 7, 8, 10]
    bench.says(held=1)
    bench.now += 1
    assert bench.withheld() == [5, 6, 7, 8, 10]
    bench.now += SETTLED_SECONDS - 1
    assert bench.withheld() == [6, 7, 8, 9, 10]
    bench.now += 1
    assert bench.withheld() == []


def test_it_follows_what_never_settles() -> None:
    """As far as that has settled."""
    bench = Bench()
    bench.says()
    assert bench.withheld() == []
    for _ in range(2):
        for gibibytes in (26, 16, 10, 16):
            bench.says(client(gibibytes, admitted=gibibytes))
            bench.now += SETTLED_SECONDS / 4
            found = bench.withheld()
    assert found == [8, 9, 10]


def test_who_begins_while_nothing_is_left_keeps_its_device() -> None:
    """What is held is offered though no more than it could be."""
    bench = Bench()
    bench.says(client(40, admitted=40))
    assert len(bench.withheld()) == DEVICES
    bench.says(client(40, admitted=40), held=3)
    assert bench.withheld() == [4, 5, 6, 7, 8, 9, 10]


def test_what_is_known_first_counts_at_once() -> None:
    """A plugin that begins has nothing to wait for."""
    bench = Bench()
    assert bench.withheld() == []
    bench.says(client(16, admitted=16), held=2)
    assert bench.withheld() == [6, 7, 8, 9, 10]
    bench.status = None
    assert bench.withheld() == [6, 7, 8, 9, 10]
    bench.now += SETTLED_SECONDS
    assert bench.withheld() == []


def test_what_was_held_just_now_is_not_withheld() -> None:
    """Neither while a new kubelet tells of no containers yet, nor while there is none."""
    bench = Bench()
    bench.says(client(40, admitted=40), held=2)
    assert bench.status is not None
    bench.status.devices[0].allocations[1].virtual_device_ids[0] = "GPU-a__9"
    assert bench.withheld() == [2, 3, 4, 5, 6, 7, 8, 10]
    bench.status = None
    bench.now += SETTLED_SECONDS - 1
    assert 9 not in bench.withheld()
    bench.says(client(40, admitted=40))
    bench.now += 0.5
    assert bench.withheld() == [2, 3, 4, 5, 6, 7, 8, 10]
    bench.now += SETTLED_SECONDS
    assert len(bench.withheld()) == DEVICES


def test_what_is_not_known_takes_away_nothing() -> None:
    """A scheduler that is silent, old, or has not heard kubelet; a GPU that it does not know, or not the size of."""
    bench = Bench()
    assert bench.withheld() == []
    bench.says(client(40, admitted=40))
    assert bench.status is not None
    bench.status.knows_allocations = False
    assert bench.servable.room("a") is None
    bench.status.knows_allocations = True
    bench.status.devices[0].total_bytes = 0
    assert bench.servable.room("a") is None
    bench.status = status()
    assert bench.servable.room("a") is None


def test_ids_of_others_are_not_taken_for_ours() -> None:
    """Whatever kubelet was told."""
    bench = Bench()
    bench.says(held=1)
    assert bench.status is not None
    bench.status.devices[0].allocations[0].virtual_device_ids.append("nonsense")
    assert bench.room().held == {1}


def test_in_words() -> None:
    """As the log shows it."""
    assert str(room(4, outside=8)) == "12.0 GiB are promised, of 16.0 GiB and 16.0 GiB of host memory"
    assert str(room(12, host=0)) == "12.0 GiB are promised, of 16.0 GiB, nothing is swapped"


def test_shares_of_claims_are_withheld() -> None:
    """Once for a claim, however many pods have it: none of them counts as one with a virtual device of its own."""
    claimed = [
        admin_pb2.Allocation(identity=admin_pb2.Identity(namespace="team", pod=pod), claim="team/share", shares=3)
        for pod in ("one", "two")
    ]
    held = admin_pb2.Allocation(
        identity=admin_pb2.Identity(namespace="team", pod="three"), virtual_device_ids=["GPU-a__1"]
    )
    device = admin_pb2.Device(uuid="GPU-a", total_bytes=16 * GIB, allocations=[*claimed, held])
    status = admin_pb2.Status(devices=[device], knows_allocations=True)
    assert Servable(lambda: status, lambda: 0.0).withheld("GPU-a", DEVICES) == {8, 9, 10}
