"""Equal data of processes that sleep is kept once, and each has its own again: the real scheduler and its packs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.api.pages import figures
from tests.scheduler.sleeping.blocks import BLOCK
from tests.scheduler.sleeping.scene import DATA, MIB, Scene, Serve, Start
from tests.scheduler.sleeping.sleepy import OPTIONS, Sleepy
from tests.scheduler.wire_client import TIMEOUT_SECONDS

HOST = 704 * MIB
"""Beside three there is room for no more than two, and there is room for a pack, and for one of four to come back."""
MODEL = range(1, DATA // BLOCK + 1)
"""Of all."""


class Packs(Scene):
    """Processes that come with blocks."""

    def has(self, tags: Sequence[int] = MODEL) -> Sleepy:
        """One more that sleeps, and has these."""
        client = self.comes()
        client.blocks.tags = list(tags)
        self.sleeps()
        return client

    def three(self) -> list[Sleepy]:
        """With the same blocks, all of which are in a pack."""
        for _ in range(3):
            self.has()
        self.sees(lambda: self.shared() == 3, "all is in a pack")
        return self.clients

    def shared(self) -> int:
        """How many have blocks in a pack."""
        return sum(client.blocks.away_bytes > 0 for client in self.clients)

    def memory(self) -> tuple[int, int, int]:
        """What is used, what is away, and what packs take, as the status shows it."""
        status = self.scheduler.status()
        return status.host_memory_used_bytes, status.shared_blocks_bytes, status.packs_bytes


@pytest.fixture
def scene(serve: Serve, start: Start, devices: dict[str, str]) -> Packs:
    """With nobody yet."""
    return Packs(serve, start, devices, HOST)


def packs_of(pid: int) -> int:
    """How many packs a process has open."""
    count = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            count += "nvshare-pack" in str(link.readlink())
    return count


def test_equal_data_is_kept_once(scene: Packs) -> None:
    """Each has its own again when it wakes; what is where is shown."""
    clients = scene.three()
    arenas = sum(client.memory.arena_bytes for client in clients)
    assert scene.memory() == (arenas - 2 * DATA, 3 * DATA, DATA)
    shown = [client for device in scene.scheduler.status().devices for client in device.clients]
    assert [client.swap.shared_bytes for client in shown] == [DATA] * 3
    seen = figures(scene.scheduler)
    assert (seen["nvshare_shared_blocks_bytes"], seen["nvshare_packs_bytes"]) == (3 * DATA, DATA)
    for client in clients:
        scene.wakes(client)
    poll_until(lambda: not packs_of(scene.scheduler.process.pid), "the pack is closed", TIMEOUT_SECONDS)


def test_one_more_comes_to_the_pack(scene: Packs) -> None:
    """Nothing is written for it; and what it has several times is in the pack once."""
    scene.three()
    scene.has([*MODEL, *MODEL][:48])
    scene.sees(lambda: scene.shared() == 4, "its data is there, too")
    assert scene.clients[-1].blocks.asked == ["sum", "dedup"]
    assert scene.memory()[1:] == (4 * DATA, DATA)
    assert packs_of(scene.scheduler.process.pid) == 1


def test_other_data_stays(scene: Packs) -> None:
    """The first three have nothing in common. A pack of the others has only what they have."""
    for number in range(1, 3):
        scene.has([1000 * number + tag for tag in MODEL])
    for _ in range(2):
        scene.has()
    scene.sees(lambda: all(client.blocks.asked for client in scene.clients), "all are asked")
    assert scene.shared() == 0
    assert scene.memory()[1:] == (0, 0)


@pytest.mark.parametrize("step", ["sum", "pack", "dedup"])
def test_a_client_does_not(scene: Packs, step: str) -> None:
    """Its data stays as it was, and nothing is left of a pack that nobody has."""
    for _ in range(2):
        scene.has()
    client = scene.comes()
    client.blocks.tags = list(MODEL)
    client.blocks.refuses_at = step
    scene.sleeps()
    scene.sees(lambda: step in client.blocks.asked, "it is asked")
    scene.sees(lambda: not packs_of(scene.scheduler.process.pid), "there is no pack")
    assert scene.shared() == 0
    scene.wakes(client)


def test_a_pack_with_something_else(scene: Packs) -> None:
    """Nobody lets go of what is not equal."""
    for _ in range(2):
        scene.has()
    client = scene.comes()
    client.blocks.tags, client.blocks.breaks_pack = list(MODEL), True
    scene.sleeps()
    scene.sees(lambda: "dedup" in client.blocks.asked, "it is asked")
    scene.sees(lambda: not packs_of(scene.scheduler.process.pid), "there is no pack")
    assert scene.shared() == 0


def test_the_scheduler_dies(scene: Packs) -> None:
    """Who has data in a pack says so to the next one, and has it again when it wakes."""
    clients = scene.three()
    before = scene.memory()
    scene.again()
    scene.sleeps()
    scene.sees(lambda: scene.memory() == before, "the next one counts the same")
    assert scene.scheduler.status().host_memory_bytes == HOST
    for client in scene.clients:
        scene.wakes(client)
    assert not [line for line in scene.scheduler.log() if line["level"] == "error"]
    assert len(clients) == 3


@pytest.mark.parametrize("step", ["sum", "pack", "dedup"])
def test_the_scheduler_dies_meanwhile(scene: Packs, step: str) -> None:
    """The next one begins anew."""
    for _ in range(2):
        scene.has()
    client = scene.comes()
    client.blocks.tags, client.blocks.hangs_at = list(MODEL), step
    scene.sleeps()
    scene.sees(lambda: step in client.blocks.asked, "it is asked")
    client.blocks.hangs_at = ""
    scene.again()
    scene.sees(lambda: scene.shared() == 3, "all is in a pack")


def test_a_process_ends(scene: Packs) -> None:
    """With the last one the pack does."""
    for client in scene.three()[:]:
        assert packs_of(scene.scheduler.process.pid) == 1
        scene.leaves(client)
    poll_until(lambda: not packs_of(scene.scheduler.process.pid), "the pack is closed", TIMEOUT_SECONDS)
    scene.sees(lambda: scene.memory() == (0, 0, 0), "nothing is used")


@pytest.mark.parametrize("step", ["sum", "pack", "dedup"])
def test_it_is_wanted_meanwhile(scene: Packs, step: str) -> None:
    """It wakes when it has answered."""
    for _ in range(2):
        scene.has()
    client = scene.comes()
    client.blocks.tags, client.blocks.hangs_at = list(MODEL), step
    scene.sleeps()
    scene.sees(lambda: step in client.blocks.asked, "it is asked")
    client.client.send(wire.Wake())
    client.client.send(client.blocks.late("woken meanwhile"))
    client.blocks.hangs_at = ""
    scene.sees(lambda: client.woken, "it is awake")


def test_not_where_there_is_a_disk(serve: Serve, start: Start, devices: dict[str, str], tmp_path: Path) -> None:
    """There all of it may go."""
    scene = Packs(serve, start, devices, HOST, (f"--swap-dir={tmp_path}",))
    for _ in range(3):
        scene.has()
    assert not any(client.blocks.asked for client in scene.clients)


@pytest.mark.parametrize("frame", [wire.Summed(1), wire.Packed(), wire.Deduped(text="why"), wire.Deduped(BLOCK, 1, 1)])
def test_nobody_asked(serve: Serve, start: Start, devices: dict[str, str], frame: wire.Frame) -> None:
    """Whoever answers that has its connection ended, and whoever says it before all else."""
    scheduler = serve(*OPTIONS, environment=devices)
    early = start().connect(scheduler)
    early.send(frame)
    early.raw.wait_closed()
    client = Sleepy(start(), scheduler).come()
    client.client.send(frame)
    client.client.raw.wait_closed()
