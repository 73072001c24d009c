"""StoreArena is carried out: a file goes to the client, and the core hears what became of it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from structlog.testing import CapturingLogger

from nvshare.protocol import wire
from nvshare.scheduler.arenas import sending as sending_module
from nvshare.scheduler.arenas.storing import Storing
from nvshare.scheduler.core.actions import StoreArena
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.sleep_events import ArenaLoaded, ArenaNotStored, ArenaStored, StoreEvent
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity
from nvshare.scheduler.registered_client import Delivery, RegisteredClient
from tests.polling import until

GIB = 1 << 30


class Clients:
    """Some clients, and what the core hears."""

    def __init__(self, folder: Path) -> None:
        self.received: list[int] = []
        """Descriptors."""
        self.on_sent: list[Callable[[Delivery], None]] = []
        self.heard: list[StoreEvent] = []
        self.came_with_file: list[int] = []
        self.logger = CapturingLogger()
        nobody = Description(0, "", Identity())
        known = {number: RegisteredClient(self, "GPU-a", 2, "swap", number, nobody) for number in (1, 2)}  # type: ignore[arg-type]
        self.storing = Storing(
            asyncio.get_running_loop(),
            structlog.wrap_logger(self.logger, processors=[]),
            folder,
            lambda: known,
            lambda _number: GIB,
            self.heard.append,
            self.came_with_file.append,
        )

    def send_with(self, _frame: wire.Store, descriptor: int, done: Callable[[Delivery], None]) -> None:
        """See ``ActionReceiver``."""
        self.received.append(descriptor)
        self.on_sent.append(done)

    async def gets_file(self, client: int) -> None:
        """It is to store what it has."""
        self.storing.store(StoreArena(client))
        await until(lambda: self.on_sent, "a file is made")
        self.on_sent.pop()(Delivery.WENT)

    def warnings(self) -> list[str]:
        """Their reasons."""
        return [call.kwargs["reason"] for call in self.logger.calls if call.method_name == "warning"]


def is_open(descriptor: int, folder: Path) -> bool:
    """Whether it is a descriptor of a file there."""
    try:
        return str(folder) in str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        return False


@pytest.fixture
async def clients(tmp_path: Path) -> Clients:
    return Clients(tmp_path)


@pytest.fixture(autouse=True)
def _closed(clients: Clients) -> Iterator[None]:
    yield
    clients.storing.stop()


async def test_stored_and_loaded(clients: Clients, tmp_path: Path) -> None:
    """The file is the client's alone, and what it took is counted."""
    await clients.gets_file(1)
    await until(lambda: not is_open(clients.received[0], tmp_path), "it is closed here")
    clients.storing.heard(1, wire.Stored())
    clients.storing.grows(1)
    clients.storing.heard(1, wire.Loaded())
    assert clients.heard == [ArenaStored(1), ArenaLoaded(1)]
    times = clients.storing.times
    assert (times.written_bytes, times.read_bytes) == (GIB, GIB)
    assert times.write_seconds > 0 < times.read_seconds
    assert not clients.came_with_file
    assert not clients.warnings()


async def test_not_stored(clients: Clients) -> None:
    """The core hears why, and the operator once, until it is another reason or went well in between."""
    for text in ("no space", "no space", "an error"):
        await clients.gets_file(1)
        clients.storing.heard(1, wire.NotStored(text))
    await clients.gets_file(2)
    clients.storing.heard(2, wire.Stored())
    await clients.gets_file(1)
    clients.storing.heard(1, wire.NotStored("an error"))
    assert clients.heard.count(ArenaNotStored(1, "no space")) == 2
    assert clients.warnings() == ["no space", "an error", "an error"]


async def test_no_file_can_be_made(clients: Clients, tmp_path: Path) -> None:
    """The core hears of it later, not from within what it wanted."""
    os.rmdir(tmp_path)  # noqa: PTH106
    for number in (1, 2):
        clients.storing.store(StoreArena(number))
    assert not clients.heard
    await until(lambda: len(clients.heard) == 2, "the core hears of both")
    reason = f"no file can be made in {tmp_path}: No such file or directory"
    assert clients.heard == [ArenaNotStored(1, reason), ArenaNotStored(2, reason)]
    assert clients.warnings() == [reason]
    os.mkdir(tmp_path)  # noqa: PTH102
    await clients.gets_file(1)


async def test_a_file_system_that_complains_when_a_file_is_closed(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS does when the disk is full: the file is closed all the same, and others get theirs."""
    close = os.close
    complained: list[int] = []

    def complain(descriptor: int) -> None:
        close(descriptor)
        if descriptor in clients.received and not complained:
            complained.append(descriptor)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "close", complain)
    await clients.gets_file(1)
    await until(lambda: complained, "it is closed here")
    await clients.gets_file(2)


async def test_a_client_that_goes_meanwhile(clients: Clients, tmp_path: Path) -> None:
    """Before its file is made, or before its socket took it: the file is given back, and the core hears nothing."""
    clients.storing.store(StoreArena(1))
    clients.storing.forget(1)
    clients.storing.store(StoreArena(2))
    await until(lambda: clients.on_sent, "the other one's is made")
    clients.storing.forget(2)
    clients.on_sent.pop()(Delivery.NEVER)
    [descriptor] = clients.received
    await until(lambda: not is_open(descriptor, tmp_path), "it is closed")
    assert not any(is_open(int(each), tmp_path) for each in os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert not clients.heard


async def test_what_can_not_go_now_goes_later(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same file."""
    monkeypatch.setattr(sending_module, "_SEND_AGAIN_SECONDS", 0.01)
    clients.storing.store(StoreArena(1))
    await until(lambda: clients.on_sent, "a file is made")
    clients.on_sent.pop()(Delivery.NOT_NOW)
    await until(lambda: clients.on_sent, "it is sent again")
    assert clients.received[0] == clients.received[1]
    clients.on_sent.pop()(Delivery.WENT)
    clients.storing.heard(1, wire.Stored())
    assert clients.heard == [ArenaStored(1)]


async def test_an_answer_before_the_file(clients: Clients) -> None:
    """It can't know of any."""
    clients.storing.store(StoreArena(1))
    for frame in (wire.Stored(), wire.NotStored("why")):
        with pytest.raises(IllegalEvent):
            clients.storing.heard(1, frame)
    with pytest.raises(IllegalEvent):
        clients.storing.heard(2, wire.NotStored("why"))
    await until(lambda: clients.on_sent, "a file is made")
    clients.on_sent.pop()(Delivery.NEVER)
    assert not clients.heard


async def test_it_comes_with_a_file(clients: Clients) -> None:
    """What it said that it has was no host memory, whoever asked it to store that."""
    clients.storing.heard(1, wire.Stored())
    assert clients.heard == [ArenaStored(1)]
    assert clients.came_with_file == [1]
    assert clients.storing.times.written_bytes == 0
