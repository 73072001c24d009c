"""GPUs that fall off a node, and a driver that comes after the plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import GPUS, VIRTUAL_DEVICES
from tests.e2e.kubectl import PLUGIN, SYSTEM, allocatable, configure, eventually, kubectl, restarts, rolled_out
from tests.e2e.node import Node

pytestmark = pytest.mark.timeout(300)

OF_ONE_GPU = VIRTUAL_DEVICES // GPUS
NAME = "nvshare-device-plugin"


@pytest.fixture
def patient(simulated: Node) -> Iterator[Node]:
    """The node with a plugin that takes GPUs for well as soon as they are, and soon ends where there is no driver."""
    settings = {"recovery_seconds": 0.0, "fail_on_init_error": True, "init_error_seconds": 3.0}
    configure({**settings, "virtual_devices": OF_ONE_GPU})
    eventually("the devices are there", lambda: allocatable() == VIRTUAL_DEVICES, 60)
    yield simulated
    simulated.sicken("")


def test_a_gpu_that_is_lost(patient: Node) -> None:
    """Its devices are gone, also for a plugin that starts then, the other GPU's never; they come back with it."""
    seen = set()

    def offered(count: int) -> bool:
        seen.add(allocatable())
        return allocatable() == count

    patient.sicken("lost 1")
    eventually("the lost GPU is noticed", lambda: offered(OF_ONE_GPU), 60)
    assert seen <= {VIRTUAL_DEVICES, OF_ONE_GPU}
    kubectl("rollout", "restart", "--namespace", SYSTEM, PLUGIN)
    rolled_out()
    eventually("a new plugin offers the other one", lambda: offered(OF_ONE_GPU), 60)
    patient.sicken("")
    eventually("the GPU is back", lambda: offered(VIRTUAL_DEVICES), 100)


def test_a_driver_that_comes_late(patient: Node) -> None:
    """A plugin without a driver ends, again and again, until a new container of it finds one: nobody has to help."""
    before = restarts(NAME)
    patient.sicken("error 9")
    patient.kill(NAME)
    eventually("it ended by itself, too", lambda: restarts(NAME) >= before + 2, 60)
    patient.sicken("")
    eventually("the devices are there", lambda: allocatable() == VIRTUAL_DEVICES, 100)
    rolled_out()
