"""What the dispatcher makes of devices and policies, with a core and no sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import structlog

from nvshare.log import Log
from nvshare.scheduler.core.actions import ClientAction
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import ClaimedState, ClientRegistered, DeviceSeen, Policy
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity
from nvshare.scheduler.recovery.choices import Choices
from nvshare.scheduler.recovery.record import Record
from nvshare.scheduler.registered_client import RegisteredClient

FIRST, SECOND, LATER = "GPU-a", "GPU-b", "GPU-c"


@pytest.fixture
async def dispatcher(tmp_path: Path) -> Dispatcher:
    """A dispatcher that knows two devices, one of them of unknown size."""
    loop = asyncio.get_running_loop()
    log: Log = structlog.wrap_logger(structlog.testing.CapturingLogger())
    settings = Settings(policy=Policy.AUTO)
    record, choices = Record(tmp_path / "holders", "holders", log), Choices(tmp_path / "choices.json", settings, log)
    dispatcher = Dispatcher(
        Core(settings),
        loop,
        log,
        record,
        choices,
        lambda _clients: None,
        lambda _action: None,
        lambda _what, _clients: None,
        lambda _action: None,
    )
    dispatcher.make_known(FIRST, 16)
    dispatcher.make_known(SECOND, 0)
    return dispatcher


def sizes(dispatcher: Dispatcher) -> list[int]:
    """The memory of every device."""
    return [device.total_bytes for device in dispatcher.snapshot()]


def policies(dispatcher: Dispatcher) -> list[Policy]:
    """The policy of every device."""
    return [device.policy for device in dispatcher.snapshot()]


async def test_the_first_measured_size_counts(dispatcher: Dispatcher) -> None:
    """NVML may tell the size of a device that was named without it; nothing else makes a known size another."""
    assert sizes(dispatcher) == [16, 0]
    dispatcher.make_known(FIRST, 8)
    dispatcher.make_known(SECOND, 0)
    assert sizes(dispatcher) == [16, 0]
    dispatcher.make_known(SECOND, 4)
    dispatcher.make_known(SECOND, 2)
    assert sizes(dispatcher) == [16, 4]


async def test_a_device_is_forgotten(dispatcher: Dispatcher) -> None:
    """It is as if it had never been there, except that what the operator chose for it counts when it comes back."""
    dispatcher.set_policy(Policy.EXCLUSIVE, FIRST)
    dispatcher.switch_off()
    assert not dispatcher.is_used(FIRST)
    dispatcher.forget(FIRST)
    assert dispatcher.devices == (SECOND,)
    dispatcher.switch_on()
    dispatcher.make_known(FIRST, 16)
    assert policies(dispatcher) == [Policy.AUTO, Policy.EXCLUSIVE]


async def test_no_welcome_for_who_is_refused(dispatcher: Dispatcher) -> None:
    """The welcome comes before a grant, and not at all when the core refuses the client."""
    said: list[str] = []
    client = RegisteredClient(Receiver(said), FIRST, 2, "native", 0, Description(0, "", Identity()), 0)
    event = ClientRegistered(1, FIRST, 0, ClaimedState.WAITING)
    dispatcher.register(client, event, lambda: said.append("welcome"))
    assert said == ["welcome", "Grant"]
    with pytest.raises(IllegalEvent):
        dispatcher.register(client, event, lambda: said.append("welcome"))
    assert said == ["welcome", "Grant"]
    assert list(dispatcher.clients) == [1]


class Receiver:
    """A client that writes down what it is told."""

    def __init__(self, said: list[str]) -> None:
        self._said = said

    def deliver(self, action: ClientAction) -> None:
        self._said.append(type(action).__name__)

    def set_scheduling(self, on: bool) -> None:
        self._said.append(f"scheduling {on}")


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


async def test_a_policy_chosen_for_one_device_while_off(dispatcher: Dispatcher) -> None:
    """It stays when scheduling is switched on, and the other devices get back what they had."""
    dispatcher.set_policy(Policy.EXCLUSIVE, SECOND)
    dispatcher.switch_off()
    dispatcher.make_known(LATER, 1)
    dispatcher.set_policy(Policy.EXCLUSIVE, FIRST)
    assert policies(dispatcher) == [Policy.EXCLUSIVE, Policy.OFF, Policy.OFF]
    dispatcher.switch_on()
    assert policies(dispatcher) == [Policy.EXCLUSIVE, Policy.EXCLUSIVE, Policy.AUTO]


async def test_off_again_after_a_choice(dispatcher: Dispatcher) -> None:
    """A second ``off`` means all devices as well, and on brings the newest choices back."""
    dispatcher.switch_off()
    dispatcher.set_policy(Policy.EXCLUSIVE, FIRST)
    dispatcher.switch_off()
    assert policies(dispatcher) == [Policy.OFF] * 2
    dispatcher.switch_on()
    assert policies(dispatcher) == [Policy.EXCLUSIVE, Policy.AUTO]


async def test_a_chosen_policy_ends_off(dispatcher: Dispatcher) -> None:
    """What the operator chose meanwhile stays when scheduling is switched on."""
    dispatcher.switch_off()
    dispatcher.set_policy(Policy.EXCLUSIVE, None)
    dispatcher.switch_on()
    assert policies(dispatcher) == [Policy.EXCLUSIVE] * 2


@pytest.mark.parametrize(("others", "planned"), [(True, [0, 0, 1]), (False, [1, 2, 2])])
async def test_what_is_read_together_is_planned_once(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch, others: bool, planned: list[int]
) -> None:
    """After all were heard; who speaks alone is answered at once."""
    plans: list[float] = []
    plan = dispatcher._core.plan
    monkeypatch.setattr(dispatcher._core, "plan", lambda now: plans.append(now) or plan(now))
    monkeypatch.setattr(dispatcher, "_others_speak", lambda: others)
    seen = []
    for total_bytes in (32, 64):
        dispatcher.tell(DeviceSeen(FIRST, total_bytes))
        seen.append(len(plans))
    await asyncio.sleep(0)
    assert [*seen, len(plans)] == planned
