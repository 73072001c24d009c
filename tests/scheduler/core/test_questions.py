"""What the core answers when it is asked, not told."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import DeviceSeen, Policy, PolicySet
from nvshare.scheduler.core.settings import Settings

FIRST, SECOND, LATER = "GPU-b", "GPU-a", "GPU-c"


@pytest.fixture
def core() -> Core:
    """A core under ``auto`` that has seen one device with 16 bytes and one of unknown size."""
    core = Core(Settings(policy=Policy.AUTO))
    core.handle(DeviceSeen(FIRST, 16), 0.0)
    core.handle(DeviceSeen(SECOND, 0), 0.0)
    return core


def test_devices_in_the_order_in_which_they_were_seen(core: Core) -> None:
    """Each is named once, however often it is seen."""
    core.handle(DeviceSeen(FIRST, 16, 1), 1.0)
    assert core.devices() == (FIRST, SECOND)


def test_memory_of_a_device(core: Core) -> None:
    """0 while it is unknown, None while the device is."""
    assert (core.total_bytes(FIRST), core.total_bytes(SECOND), core.total_bytes(LATER)) == (16, 0, None)
    core.handle(DeviceSeen(SECOND, 8), 1.0)
    assert core.total_bytes(SECOND) == 8


def test_policy_of_a_device(core: Core) -> None:
    """A device that was not seen yet has the policy of later devices."""
    core.handle(PolicySet(Policy.OFF, SECOND), 1.0)
    assert [core.policy(device) for device in (FIRST, SECOND, LATER)] == [Policy.AUTO, Policy.OFF, Policy.AUTO]
    assert core.policies() == {None: Policy.AUTO, FIRST: Policy.AUTO, SECOND: Policy.OFF}
    core.handle(PolicySet(Policy.EXCLUSIVE), 2.0)
    core.handle(DeviceSeen(LATER, 4), 3.0)
    assert core.policies() == dict.fromkeys((None, FIRST, SECOND, LATER), Policy.EXCLUSIVE)


def test_policies_begin_with_that_of_later_devices(core: Core) -> None:
    """Whoever sets them again in this order ends with what they were."""
    assert list(core.policies()) == [None, FIRST, SECOND]


def test_an_answer_is_a_copy(core: Core) -> None:
    """Nothing that is done to it changes the core."""
    core.policies().clear()
    assert core.policies()
