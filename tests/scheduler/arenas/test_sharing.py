"""ShareArena is carried out: what is sent to clients, what the core hears, and what is left of it here."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import structlog
from structlog.testing import CapturingLogger

from nvshare.protocol import wire
from nvshare.scheduler.arenas import sending as sending_module
from nvshare.scheduler.arenas.filling import Filling
from nvshare.scheduler.arenas.sharing import Sharing
from nvshare.scheduler.core.actions import ShareArena
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.sleep_events import ArenaLoaded, ArenaNotShared, ArenaShared, StoreEvent
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity
from nvshare.scheduler.registered_client import Delivery, FrameWithDescriptor, RegisteredClient
from nvshare.scheduler.worker import Worker
from tests.polling import until
from tests.scheduler.arenas.test_filling import Room
from tests.scheduler.sleeping.blocks import BLOCK, Blocks

MODEL = list(range(1, 41))
SIZE = len(MODEL) * BLOCK
UNEQUAL = "others have too little that is equal"


class Client:
    """One of them, which answers at once unless it is told to wait."""

    def __init__(self, number: int, clients: Clients) -> None:
        self.number, self._clients = number, clients
        self.blocks = Blocks()
        self.blocks.tags = list(MODEL)
        self.deliveries: list[Delivery] = []
        """Of what is sent next; then all goes."""

    def send_with(self, frame: FrameWithDescriptor, descriptor: int, done: Callable[[Delivery], None]) -> None:
        """See ``ActionReceiver``."""
        delivery = self.deliveries.pop(0) if self.deliveries else Delivery.WENT
        if delivery is not Delivery.WENT:
            done(delivery)
            return
        answer = self.blocks.take(frame, os.dup(descriptor))
        done(delivery)
        if answer is not None:
            asyncio.get_running_loop().call_soon(self._clients.sharing.heard, self.number, answer)


class Clients:
    """Five of one user, and what the core hears."""

    def __init__(self) -> None:
        self.all = {number: Client(number, self) for number in range(1, 6)}
        self.heard: list[StoreEvent] = []
        self.came_with_blocks: list[int] = []
        self.asleep = set(self.all)
        self.room = Room()
        loop = asyncio.get_running_loop()
        mine = Description(0, "", Identity(), 1000, namespaces="")
        known = {
            number: RegisteredClient(client, "GPU-a", 2, "swap", number, mine)  # type: ignore[arg-type]
            for number, client in self.all.items()
        }
        filling = Filling([Worker(loop, "arenas")], self.room)  # type: ignore[arg-type]
        self.sharing = Sharing(
            loop,
            structlog.wrap_logger(CapturingLogger(), processors=[]),
            lambda: known,
            lambda: filling,
            lambda _number: 2 * SIZE,
            self.asleep.__contains__,
            self.heard.append,
            lambda number, _frame: self.came_with_blocks.append(number),
        )

    async def share(self, number: int, pack_bytes: int = SIZE) -> StoreEvent:
        """What the core hears of one that is asked."""
        self.heard.clear()
        self.sharing.share(ShareArena(number, pack_bytes))
        await until(lambda: self.heard, "the core hears of it")
        return self.heard[0]

    async def three(self) -> ArenaShared:
        """Of which the last one is the first with blocks in a pack."""
        for number in (1, 2):
            assert await self.share(number) == ArenaNotShared(number, UNEQUAL)
        event = await self.share(3)
        assert isinstance(event, ArenaShared)
        return event


def left() -> int:
    """How many packs and catalogues are open here, those of clients included."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            name = str(link.readlink())
            count += "nvshare-pack" in name or "nvshare-catalogue" in name
    return count


@pytest.fixture
async def clients() -> Clients:
    return Clients()


@pytest.fixture(autouse=True)
async def _nothing_left(clients: Clients) -> AsyncIterator[None]:
    yield
    clients.sharing.stop()
    for number, client in clients.all.items():
        clients.sharing.forget(number)
        client.blocks.close()
    await until(lambda: not left(), "all is closed")


async def test_the_third_makes_a_pack_and_others_come_to_it(clients: Clients) -> None:
    """Sums that are not equal to others' are not asked for again."""
    made = await clients.three()
    assert (made.away_bytes, made.pack_bytes) == (SIZE, SIZE)
    for number in (1, 4):
        assert await clients.share(number, 0) == ArenaShared(number, SIZE, made.pack, SIZE)
    clients.all[5].blocks.tags = list(range(100, 140))
    for _ in range(2):
        assert await clients.share(5, 0) == ArenaNotShared(5, UNEQUAL)
    assert [clients.all[number].blocks.asked for number in (3, 4, 5)] == [
        ["sum", "pack", "dedup"],
        ["sum", "dedup"],
        ["sum"],
    ]


async def test_who_woke_is_asked_for_sums_again(clients: Clients) -> None:
    """And its old ones are nobody's any more."""
    assert await clients.share(1) == ArenaNotShared(1, UNEQUAL)
    clients.sharing.woke(1)
    assert await clients.share(2) == ArenaNotShared(2, UNEQUAL)
    assert await clients.share(3) == ArenaNotShared(3, UNEQUAL)
    assert isinstance(await clients.share(1), ArenaShared)


async def test_a_pack_ends_with_its_last_client(clients: Clients) -> None:
    """Whether it has its blocks again, or is gone."""
    await clients.three()
    await clients.share(1)
    clients.all[1].blocks.back()
    clients.sharing.loaded(1)
    assert clients.heard[-1] == ArenaLoaded(1)
    clients.sharing.forget(3)
    clients.all[3].blocks.back()
    assert isinstance(await clients.share(4), ArenaNotShared)
    # Each client has its own catalogue itself.
    await until(lambda: left() == len((1, 2, 3, 4)), "all else is closed")


@pytest.mark.parametrize("step", ["sum", "pack", "dedup"])
async def test_a_client_is_gone_meanwhile(clients: Clients, step: str) -> None:
    """Nothing is left of it here."""
    for number in (1, 2):
        await clients.share(number)
    client = clients.all[3].blocks
    client.hangs_at = step
    clients.sharing.share(ShareArena(3, SIZE))
    await until(lambda: step in client.asked, "it is asked")
    clients.sharing.forget(3)
    # Each client has its own catalogue itself, but one that has not taken it.
    await until(lambda: left() == len((1, 2)) + (step != "sum"), "all else is closed")


@pytest.mark.parametrize("step", ["sum", "pack", "dedup"])
async def test_somebody_wants_it_awake(clients: Clients, step: str) -> None:
    """The step that it is at ends, and no other one begins."""
    for number in (1, 2):
        await clients.share(number)
    client = clients.all[3].blocks
    client.hangs_at = step
    clients.heard.clear()
    clients.sharing.share(ShareArena(3, SIZE))
    await until(lambda: step in client.asked, "it is asked")
    clients.asleep.discard(3)
    clients.sharing.heard(3, client.late(""))
    await until(lambda: clients.heard, "the core hears of it")
    assert isinstance(clients.heard[0], ArenaNotShared)
    assert client.asked[-1] == step


async def test_there_is_no_memory_for_a_pack(clients: Clients) -> None:
    """Of what it is allowed nothing is left, or nothing of the machine's."""
    for number in (1, 2):
        await clients.share(number)
    assert await clients.share(3, SIZE // 2) == ArenaNotShared(3, UNEQUAL)
    clients.room.bytes = 0
    assert await clients.share(4) == ArenaNotShared(4, "no more can be had")


@pytest.mark.parametrize("asked", [[], ["sum"], ["sum", "pack"]])
async def test_there_is_no_descriptor_for_a_frame(
    clients: Clients, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    """The core hears of it, and the client may be asked again."""
    duplicate = os.dup

    def refuse(descriptor: int) -> int:
        if clients.all[3].blocks.asked == asked:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return duplicate(descriptor)

    for number in (1, 2):
        await clients.share(number)
    monkeypatch.setattr(os, "dup", refuse)
    assert await clients.share(3) == ArenaNotShared(3, "Too many open files")
    monkeypatch.undo()
    assert isinstance(await clients.share(3), ArenaShared)


async def test_who_could_still_write_to_a_pack(clients: Clients) -> None:
    """Nobody gets it, then."""
    for number in (1, 2):
        await clients.share(number)
    client = clients.all[3].blocks
    client.keeps_mapped = True
    assert await clients.share(3) == ArenaNotShared(3, "Device or resource busy")
    assert client.asked == ["sum", "pack"]


async def test_what_can_not_go_now_goes_later(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the frames."""
    monkeypatch.setattr(sending_module, "_SEND_AGAIN_SECONDS", 0.01)
    for number in (1, 2):
        await clients.share(number)
    clients.all[3].deliveries = [Delivery.NOT_NOW, Delivery.WENT] * 3
    assert isinstance(await clients.share(3), ArenaShared)


async def test_it_came_with_blocks(clients: Clients) -> None:
    """It may say so while it is asked by who did not know."""
    clients.all[1].blocks.hangs_at = "sum"
    clients.sharing.share(ShareArena(1, SIZE))
    await until(lambda: clients.all[1].blocks.asked, "it is asked")
    clients.sharing.heard(1, wire.Deduped(SIZE, SIZE, 7))
    clients.sharing.heard(1, wire.Summed(0, "its memory is away"))
    assert clients.heard == [ArenaShared(1, SIZE, 7, SIZE)]
    assert clients.came_with_blocks == [1]
    assert clients.sharing.has(1)


async def test_what_answers_nothing(clients: Clients) -> None:
    """More sums than it has blocks, another pack, and frames in another order."""
    for frame in (wire.Summed(1), wire.Packed(), wire.Deduped(text="why")):
        with pytest.raises(IllegalEvent):
            clients.sharing.heard(1, frame)
    client = clients.all[1].blocks
    client.hangs_at = "sum"
    clients.sharing.share(ShareArena(1, SIZE))
    await until(lambda: client.asked, "it is asked")
    for wrong in (wire.Summed(2 * len(MODEL) + 1), wire.Packed()):
        with pytest.raises(IllegalEvent):
            clients.sharing.heard(1, wrong)
    for number in (2, 3):
        await clients.share(number)
    other = clients.all[4].blocks
    other.hangs_at = "dedup"
    clients.sharing.share(ShareArena(4, SIZE))
    await until(lambda: "dedup" in other.asked, "it is asked")
    with pytest.raises(IllegalEvent):
        clients.sharing.heard(4, wire.Deduped(SIZE, SIZE, 7))
