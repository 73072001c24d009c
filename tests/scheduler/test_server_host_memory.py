"""The budget of host memory where clients come back with some that another scheduler made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from nvshare.protocol import wire
from tests.scheduler.client_process import ClientProcess
from tests.scheduler.swapper import Swapper
from tests.scheduler.wire_client import DEVICE, OTHER_DEVICE, Scheduler

Serve = Callable[..., Scheduler]

MIB = 1 << 20
GIB = 1 << 30
TOTAL = 4 * GIB
"""Of the devices here."""
FOOTPRINT = 1792 * MIB
"""One fits beside two contexts and the reserve; two do not."""
BUDGET = 2 * GIB


class Comer(ClientProcess):
    """A program whose memory swaps, with one scheduler after the other."""

    def begins(self, scheduler: Scheduler, device: bytes) -> None:
        """For the first time, with nothing."""
        self.device = device
        self.swapper = Swapper(self.connect(scheduler)).register(total_bytes=TOTAL, device_uuid=device)

    def registers(self, scheduler: Scheduler, **has: int) -> Swapper:
        """Comes back with what it ``has``, and says nothing of it but its footprint."""
        self.swapper = Swapper(self.connect(scheduler))
        self.swapper.memory = replace(self.swapper.memory, **has)
        footprint = has["footprint_bytes"]
        self.swapper.client.register(
            None,
            swaps=True,
            footprint_bytes=footprint,
            total_bytes=TOTAL,
            device_uuid=self.device,
            level=wire.LEVEL,
        )
        return self.swapper


@pytest.fixture
def comers() -> Iterator[tuple[Comer, Comer]]:
    """Two programs."""
    with Comer() as one, Comer() as other:
        yield one, other


@pytest.mark.parametrize("other_device", [DEVICE, OTHER_DEVICE], ids=["same-device", "other-device"])
def test_what_some_had_is_not_given_to_others(serve: Serve, comers: tuple[Comer, Comer], other_device: bytes) -> None:
    """The first one that is back gets none before the second one has said how much of the budget it has."""
    first, second = comers
    scheduler = serve("--host-memory", f"{BUDGET >> 30}GiB")
    for comer, device in ((first, DEVICE), (second, other_device)):
        comer.begins(scheduler, device)
    scheduler.kill()
    scheduler = serve("--host-memory", f"{BUDGET >> 30}GiB")
    had = 512 * MIB
    # More than the device holds: it could use more host memory.
    back = first.registers(scheduler, footprint_bytes=2 * FOOTPRINT, arena_bytes=had, usable_bytes=had)
    back.say(resident_bytes=2 * FOOTPRINT)
    other = second.registers(scheduler, footprint_bytes=FOOTPRINT, arena_bytes=BUDGET - had, usable_bytes=BUDGET - had)
    back.waits(0)
    other.waits(0)
    assert scheduler.status().host_memory_used_bytes == had
    other.say(out_bytes=BUDGET - had)
    other.waits(0)
    assert scheduler.status().host_memory_used_bytes == BUDGET == scheduler.status().host_memory_bytes


def test_what_some_had_was_not_free(serve: Serve, comers: tuple[Comer, Comer]) -> None:
    """A share of what is free is the same share with programs that have some of it already, for each next scheduler."""
    comer, _ = comers
    scheduler = serve("--host-memory", "50%")
    comer.begins(scheduler, DEVICE)
    scheduler.kill()
    scheduler = serve("--host-memory", "50%")
    before = scheduler.status().host_memory_bytes
    had = 1 << 40
    back = comer.registers(scheduler, footprint_bytes=MIB, resident_bytes=MIB, arena_bytes=had, usable_bytes=had)
    back.say()
    back.waits(0)
    assert scheduler.status().host_memory_bytes == before + had // 2


def test_what_some_had_was_in_a_file(serve: Serve, comers: tuple[Comer, Comer]) -> None:
    """So it took nothing of what was free."""
    comer, _ = comers
    scheduler = serve("--host-memory", "50%")
    comer.begins(scheduler, DEVICE)
    scheduler.kill()
    scheduler = serve("--host-memory", "50%")
    before = scheduler.status().host_memory_bytes
    had = 1 << 40
    back = comer.registers(scheduler, footprint_bytes=MIB, out_bytes=MIB, arena_bytes=had, usable_bytes=had)
    back.say()
    for frame in (wire.Terms(), wire.Asleep(0), wire.Stored(), wire.AskReason()):
        back.client.send(frame)
    while not isinstance(back.client.receive(), wire.Reason):
        pass
    status = scheduler.status()
    assert (status.host_memory_bytes, status.host_memory_used_bytes) == (before, 0)
    assert status.swap_file_used_bytes == had
