"""What containers were given, by which plugin, who may use it, and who of them has no client."""

from __future__ import annotations

import pytest

from nvshare.scheduler.pods.allocations import (
    Claimed,
    Holding,
    Listed,
    given_devices,
    given_twice,
    holdings_of,
    listed,
    without_client,
)
from nvshare.scheduler.pods.identity import Identity, Source

A = "GPU-6e767368-6172-6500-0000-000000000001"
B = "GPU-6e767368-6172-6500-0000-000000000002"
M = "MIG-6e767368-6172-6500-0000-000000000003"


def test_holdings() -> None:
    """One for each GPU, with its ids in order."""
    assert holdings_of("n", "p", "c", [f"{B}__1", f"{A}__7", f"{M}__2", f"{A}__3"]) == (
        Holding("n", "p", "c", A, (f"{A}__3", f"{A}__7")),
        Holding("n", "p", "c", B, (f"{B}__1",)),
        Holding("n", "p", "c", M, (f"{M}__2",)),
    )


@pytest.mark.parametrize("other", [A, f"{A}::2", "0", "eth0__1", f"{A}__", f"{A}__x", "GPU-1__1"])
def test_other_plugins_devices(other: str) -> None:
    """What is not called as nvshare's plugin calls it is none of its."""
    assert holdings_of("n", "p", "c", [other]) == ()


HELD = Holding("n", "p", "c", A, (f"{A}__1",))


@pytest.mark.parametrize(
    ("device", "identity", "fits"),
    [
        (A, Identity("n", "p", "c", Source.KERNEL), True),
        (A, Identity("n", "p", "", Source.KERNEL), True),
        (A, Identity("", "p", "", Source.HINT), True),
        (B, Identity("n", "p", "c", Source.KERNEL), False),
        (A, Identity("n", "p", "d", Source.KERNEL), False),
        (A, Identity("n", "q", "c", Source.KERNEL), False),
        (A, Identity("m", "p", "c", Source.KERNEL), False),
        (A, Identity(), False),
    ],
)
def test_whose_client_it_is(device: str, identity: Identity, fits: bool) -> None:
    """The same container on the same GPU; what is not known of a client is taken to fit, a pod must be."""
    assert without_client([HELD], [(device, identity)]) == ({} if fits else {A: [HELD]})


def test_each_gpu_for_itself() -> None:
    """A container that uses one of its two GPUs has no client on the other one."""
    holdings = holdings_of("n", "p", "c", [f"{A}__1", f"{B}__1"])
    assert without_client(holdings, [(A, Identity("n", "p", "c", Source.KERNEL))]) == {B: [holdings[1]]}
    assert without_client(holdings, []) == {A: [holdings[0]], B: [holdings[1]]}


@pytest.mark.parametrize(
    ("resource", "ids", "clear"),
    [
        ("nvidia.com/gpu", [f"{A}", f"{A}::3"], True),
        ("nvidia.com/mig-1g.10gb", [A], True),
        ("example.com/gpu", [f"{A}-0"], True),
        ("nvidia.com/gpu", ["0"], False),
        ("example.com/nic", ["0"], True),
    ],
)
def test_what_other_plugins_gave(resource: str, ids: list[str], clear: bool) -> None:
    """Their GPUs by UUIDs, with whatever follows; one of NVIDIA's that is not called so may be any GPU."""
    named = tuple(device_id for device_id in ids if A in device_id)
    others = (Holding("n", "p", "c", A, named, resource),) if named else ()
    held = (Holding("n", "p", "c", B, (f"{B}__1",)),)
    devices = {"nvshare.com/gpu": [f"{B}__1"], resource: ids}
    assert listed("n", "p", "c", devices, []) == Listed("n", "p", "c", held, others, clear)


@pytest.mark.parametrize(("driver", "clear"), [("gpu.nvidia.com", False), ("dra.net", True)])
def test_what_came_by_a_claim(driver: str, clear: bool) -> None:
    """GPUs that come by one may be any."""
    assert listed("n", "p", "c", {}, [Claimed("n/c", driver, "gpu-0")]).is_clear is clear


def container(name: str, *ids: str, pod: str = "p", gpus: tuple[str, ...] = (), driver: str = "") -> Listed:
    """One of namespace n."""
    claimed = [Claimed("n/c", driver, "gpu-0")] if driver else []
    return listed("n", pod, name, {"nvshare.com/gpu": ids, "nvidia.com/gpu": gpus}, claimed)


CONTAINERS = [
    container("a", f"{A}__1"),
    container("b", f"{B}__1"),
    container("none"),
    container("a", pod="without", gpus=(A,)),
    container("a", f"{A}__2", pod="mixed", gpus=(B,)),
    container("a", f"{A}__2", pod="unclear", gpus=("0",)),
    container("a", f"{A}__2", pod="claim", driver="gpu.nvidia.com"),
    # An older kubelet lists pods that have ended, too.
    container("a", f"{A}__3", pod="twice"),
    container("a", f"{B}__3", pod="twice"),
]


@pytest.mark.parametrize(
    ("identity", "given"),
    [
        (Identity("n", "p", "a", Source.KERNEL), {A}),
        (Identity("n", "p", "b", Source.KERNEL), {B}),
        (Identity("n", "p", "none", Source.KERNEL), {A, B}),
        (Identity("n", "p", "", Source.KERNEL), {A, B}),
        (Identity("n", "p", "init", Source.KERNEL), None),
        (Identity("n", "p", "a", Source.HINT), None),
        (Identity("n", "q", "a", Source.KERNEL), None),
        (Identity("m", "p", "a", Source.KERNEL), None),
        (Identity("", "p", "a", Source.KERNEL), None),
        (Identity("n", "without", "a", Source.KERNEL), None),
        (Identity("n", "mixed", "a", Source.KERNEL), {A, B}),
        (Identity("n", "unclear", "a", Source.KERNEL), None),
        (Identity("n", "claim", "a", Source.KERNEL), None),
        (Identity("n", "twice", "a", Source.KERNEL), {A, B}),
        (Identity(), None),
    ],
)
def test_what_a_client_may_use(identity: Identity, given: set[str] | None) -> None:
    """What its container was given, or its pod where that is not known or nothing; nobody is judged by guesses."""
    assert given_devices(CONTAINERS, identity) == given


def test_given_by_two_plugins() -> None:
    """Only GPUs count of which nvshare gave something; where another plugin alone gives one, all is well."""
    other = Holding("n", "theirs", "a", A, (A,), "nvidia.com/gpu")
    theirs = container("a", pod="theirs", gpus=(A,))
    assert given_twice([theirs]) == {}
    assert given_twice([theirs, container("b", f"{B}__1")]) == {}
    assert given_twice([theirs, container("b", f"{A}__1")]) == {A: [other]}
