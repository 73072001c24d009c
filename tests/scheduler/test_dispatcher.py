"""What the dispatcher makes of devices and policies, with a core and no sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import structlog

from nvshare.log import Log
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.dispatcher import MAX_DEVICES, Dispatcher, TooManyDevicesError
from nvshare.scheduler.recovery.choices import Choices
from nvshare.scheduler.recovery.record import HolderRecord

FIRST, SECOND, LATER = "GPU-a", "GPU-b", "GPU-c"


@pytest.fixture
async def dispatcher(tmp_path: Path) -> Dispatcher:
    """A dispatcher that knows two devices, one of them of unknown size."""
    loop = asyncio.get_running_loop()
    log: Log = structlog.wrap_logger(structlog.testing.CapturingLogger())
    settings = Settings(policy=Policy.AUTO)
    record, choices = HolderRecord(tmp_path / "holders", log), Choices(tmp_path / "choices.json", settings, log)
    dispatcher = Dispatcher(Core(settings), loop, log, record, choices, lambda _clients: None)
    dispatcher.make_known(FIRST, 16)
    dispatcher.make_known(SECOND, 0)
    return dispatcher


def sizes(dispatcher: Dispatcher) -> list[int]:
    """The memory of every device."""
    return [device.total_bytes for device in dispatcher.snapshot()]


def policies(dispatcher: Dispatcher) -> list[Policy]:
    """The policy of every device."""
    return [device.policy for device in dispatcher.snapshot()]


async def test_the_first_known_size_counts(dispatcher: Dispatcher) -> None:
    """A client may tell the size of a device that another one named without it; no client changes a size."""
    assert sizes(dispatcher) == [16, 0]
    dispatcher.make_known(FIRST, 8)
    dispatcher.make_known(SECOND, 0)
    assert sizes(dispatcher) == [16, 0]
    dispatcher.make_known(SECOND, 4)
    dispatcher.make_known(SECOND, 2)
    assert sizes(dispatcher) == [16, 4]


async def test_there_is_a_limit_of_devices(dispatcher: Dispatcher) -> None:
    """One more is refused; those that are known stay."""
    for number in range(MAX_DEVICES - 2):
        dispatcher.make_known(f"GPU-{number}", 1)
    with pytest.raises(TooManyDevicesError, match=str(MAX_DEVICES)):
        dispatcher.make_known(LATER, 1)
    dispatcher.make_known(FIRST, 1)
    assert len(dispatcher.devices) == MAX_DEVICES


async def test_off_and_on_again(dispatcher: Dispatcher) -> None:
    """Each device gets its own policy back, a later one that of later devices; a second ``off`` changes nothing."""
    dispatcher.set_policy(Policy.EXCLUSIVE, SECOND)
    dispatcher.switch_off()
    dispatcher.make_known(LATER, 1)
    dispatcher.switch_off()
    assert policies(dispatcher) == [Policy.OFF] * 3
    dispatcher.switch_on()
    assert policies(dispatcher) == [Policy.AUTO, Policy.EXCLUSIVE, Policy.AUTO]
    dispatcher.set_policy(Policy.OFF, FIRST)
    dispatcher.switch_on()
    assert policies(dispatcher) == [Policy.OFF, Policy.EXCLUSIVE, Policy.AUTO]


async def test_a_chosen_policy_ends_off(dispatcher: Dispatcher) -> None:
    """What the operator chose meanwhile stays when scheduling is switched on."""
    dispatcher.switch_off()
    dispatcher.set_policy(Policy.EXCLUSIVE, None)
    dispatcher.switch_on()
    assert policies(dispatcher) == [Policy.EXCLUSIVE] * 2
