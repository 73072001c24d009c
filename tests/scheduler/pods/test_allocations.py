"""Which containers hold virtual devices and have no client."""

from __future__ import annotations

import pytest

from nvshare.scheduler.pods.allocations import Holding, holdings_of, without_client
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
