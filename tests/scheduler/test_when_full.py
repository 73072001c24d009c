"""Programs that wait for memory that only others' ends can free: the real scheduler and library on a simulated GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvshare import paths
from tests.polling import poll_until
from tests.scheduler.situations import MIB, allocates, calls, client, opens
from tests.scheduler.wire_client import Scheduler
from tests.shim.controlled_program import ControlledProgram

pytestmark = [pytest.mark.soak, pytest.mark.timeout(120)]

Serve = Callable[..., Scheduler]
StartCalling = Callable[..., ControlledProgram]

BYTES = 256 * MIB
"""Two of these do not fit beside each other on the GPU, nor a third beside what is left of host memory."""


@pytest.fixture
def served(serve: Serve, small_devices: dict[str, str]) -> Callable[[], Scheduler]:
    """Starts a scheduler with host memory for two programs."""
    options = ("--quantum", "0.3", "--reserve", "16MiB", "--host-memory", "640MiB")
    return lambda: serve(*options, environment=small_devices)


def ends(program: ControlledProgram) -> None:
    """It ends by itself."""
    assert program.process.stdin
    program.process.stdin.close()
    assert program.process.wait(20) == 0


def is_right(program: ControlledProgram, name: str, size: int, seed: int) -> None:
    """It finds what it has written, in turns of its own, and writes it again."""
    for _ in range(2):
        assert program.do(f"wrong {name} {size} {seed}") == "0"
        calls(program, f"stamp {name} {size} {seed}", "cuCtxSynchronize")


class Full:
    """Two programs have all the memory there is; a third one, which has a little and has just worked, wants more."""

    def __init__(self, served: Callable[[], Scheduler], start_calling: StartCalling) -> None:
        self.scheduler = served()
        self.first, self.second = (start_calling() for _ in range(2))
        self.third = start_calling({paths.WHEN_FULL: "wait"})
        for program, seed in ((self.third, 3), (self.first, 1), (self.second, 2)):
            opens(program)
            allocates(program, "x", MIB if program is self.third else BYTES, seed)
        calls(self.third, f"stamp x {MIB} 3")
        self.third.begin(f"cuMemAlloc_v2 &y {BYTES}")
        poll_until(lambda: "others have to end" in self.waits_for(), "it waits", 20)

    def waits_for(self) -> str:
        """What the third one waits for, as the status says."""
        found = client(self.scheduler, self.third)
        return "" if found is None else found.memory_wait

    def others_go_on(self) -> None:
        is_right(self.first, "x", BYTES, 1)
        is_right(self.second, "x", BYTES, 2)
        assert not self.third.answered()


@pytest.fixture
def full(served: Callable[[], Scheduler], start_calling: StartCalling) -> Full:
    """That situation."""
    return Full(served, start_calling)


def test_it_has_its_memory_when_another_ends(full: Full) -> None:
    """Until then the others take turns, though its last work may hold the GPU; nothing is lost anywhere."""
    full.others_go_on()
    assert "host memory" in full.waits_for()
    full.third.said("others have to end")
    ends(full.second)
    assert full.third.answer() == "0"
    assert full.waits_for() == ""
    calls(full.third, f"stamp y {BYTES} 4", "cuCtxSynchronize")
    is_right(full.first, "x", BYTES, 1)
    is_right(full.third, "x", MIB, 3)
    is_right(full.third, "y", BYTES, 4)


def test_who_is_killed_while_it_waits_keeps_nobody(full: Full) -> None:
    """The others go on, and the next one waits in its place."""
    full.third.process.kill()
    poll_until(lambda: client(full.scheduler, full.third) is None, "it is gone", 20)
    is_right(full.first, "x", BYTES, 1)
    is_right(full.second, "x", BYTES, 2)


def test_the_scheduler_is_killed_meanwhile(full: Full, served: Callable[[], Scheduler]) -> None:
    """The next one has it waiting again, and it gets its memory."""
    full.scheduler.kill()
    full.scheduler = served()
    poll_until(lambda: "others have to end" in full.waits_for(), "it waits again", 30)
    full.others_go_on()
    ends(full.first)
    assert full.third.answer() == "0"
    is_right(full.second, "x", BYTES, 2)


def test_who_could_never_have_it_is_refused(full: Full, start_calling: StartCalling) -> None:
    """More than there is without anybody else: at once, though it would wait."""
    other = start_calling({paths.WHEN_FULL: "wait"})
    opens(other)
    assert other.do(f"cuMemAlloc_v2 &x {1024 * MIB}") == "2"
    full.others_go_on()
