"""Who may sleep, and what the operator and the others are told."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import structlog
from structlog.testing import CapturingLogger

from nvshare.protocol import wire
from nvshare.scheduler.arenas.filling import Filling
from nvshare.scheduler.arenas.sharing import Sharing
from nvshare.scheduler.arenas.storing import Storing
from nvshare.scheduler.core.actions import Sleep
from nvshare.scheduler.core.errors import IllegalEvent
from nvshare.scheduler.core.events import Event
from nvshare.scheduler.core.sleep_events import ArenaLoaded, ArenaStored, SleepAsked, SleepOffered, WakeWanted
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity
from nvshare.scheduler.pods.processes import start_time
from nvshare.scheduler.recovery.contexts import Contexts
from nvshare.scheduler.registered_client import ActionReceiver, RegisteredClient
from nvshare.scheduler.sleeping.process import UnaskedError
from nvshare.scheduler.sleeping.sleeping import Frame, Sleeping
from tests.scheduler.sleeping.world import Loop

ROOT, USER, OTHER = 0, 1000, 1001
PID = os.getpid()
GIB = 1 << 30


class FakeDispatcher:
    """Has clients, and writes down what happened."""

    def __init__(self) -> None:
        self.clients: dict[int, RegisteredClient] = {}
        self.events: list[Event] = []
        self.refusal = ""
        self.pinned_bytes: int | None = None
        """Of each client, as it was measured."""

    def feed(self, event: Event) -> None:
        """See ``Dispatcher``."""
        if self.refusal:
            raise IllegalEvent(self.refusal, event)
        self.events.append(event)

    def client(self, _number: int) -> SimpleNamespace:
        """See ``Dispatcher``."""
        return SimpleNamespace(pinned_measured=self.pinned_bytes is not None, pinned_bytes=self.pinned_bytes or 0)


class Scene:
    """All processes, for a scheduler of a user."""

    def __init__(self, user: int, folder: Path = Path("/nowhere")) -> None:
        self.dispatcher, self.logger = FakeDispatcher(), CapturingLogger()
        self.said: list[wire.Sleep | wire.Awake] = []
        loop, log = cast(asyncio.AbstractEventLoop, Loop()), structlog.wrap_logger(self.logger, processors=[])
        self.stored: list[int] = []
        """Clients that came with a file."""
        storing = Storing(
            loop,
            log,
            None,
            lambda: self.dispatcher.clients,
            lambda _number: GIB,
            self.dispatcher.feed,
            self.stored.append,
        )
        self.shared: list[int] = []
        """Clients that came with blocks in a pack."""
        sharing = Sharing(
            loop,
            log,
            lambda: self.dispatcher.clients,
            _no_filling,
            lambda _number: GIB,
            lambda _number: True,
            self.dispatcher.feed,
            lambda number, _frame: self.shared.append(number),
        )
        contexts = Contexts(folder / "contexts.json", log)
        dispatcher = cast(Dispatcher, self.dispatcher)
        self.sleeping = Sleeping(loop, log, dispatcher, _no_sleeper, user, storing, sharing, contexts)

    def comes(self, number: int, user: int = USER, backend: str = "swap", pid: int = PID, offers: bool = True) -> None:
        """A client registers."""
        receiver = cast(ActionReceiver, None)
        shown = Description(pid, "", Identity())
        self.dispatcher.clients[number] = RegisteredClient(
            receiver, "GPU-a", 2, backend, pid, shown, started=start_time(pid) if pid else 0
        )
        if offers:
            self.sleeping.offered(number, user, self.said.append)


def _no_filling() -> Filling:
    raise AssertionError("no pack is made here")


def _no_sleeper(*_arguments: object) -> None:  # type: ignore[misc]
    raise AssertionError("nobody sleeps here")


@pytest.mark.parametrize("scheduler", [ROOT, USER])
def test_who_may(scheduler: int) -> None:
    """Root's scheduler puts all to sleep, another one its own user's; those on several GPUs are one process."""
    scene = Scene(scheduler)
    scene.comes(1)
    scene.comes(2)
    assert scene.dispatcher.events == [SleepOffered(1, PID), SleepOffered(2, PID)]
    assert scene.sleeping.awake_reason(1) == scene.sleeping.sleep(1) == ""
    scene.sleeping.wake(2)
    assert scene.dispatcher.events[2:] == [SleepAsked(PID), WakeWanted(PID)]
    scene.sleeping.see_to(Sleep(PID, (1, 2)))
    assert scene.said == [wire.Sleep(1)]


@pytest.mark.parametrize(
    ("scheduler", "more", "reason"),
    [
        (USER, {"user": OTHER}, "it is another user's, and the scheduler is not root"),
        (ROOT, {"backend": "native"}, "its memory does not swap"),
        (ROOT, {"pid": 0}, "the scheduler can't see its process"),
        (ROOT, {"offers": False}, "its library does not know how"),
    ],
    ids=["user", "backend", "pid", "library"],
)
def test_who_may_not(scheduler: int, more: dict[str, int | str | bool], reason: str) -> None:
    """The core does not hear of them. The operator hears why."""
    scene = Scene(scheduler)
    scene.comes(1, **more)  # type: ignore[arg-type]
    assert scene.sleeping.sleep(1) == scene.sleeping.awake_reason(1) == reason
    scene.sleeping.wake(1)
    assert not scene.dispatcher.events
    scene.sleeping.left(1)


def test_asleep_and_nobody_can_wake_it() -> None:
    """A former scheduler could, so it is said; its door stays closed, because what is behind it would crash it."""
    scene = Scene(USER)
    scene.comes(1, user=OTHER)
    scene.sleeping.heard(1, wire.Asleep(0))
    assert [call.method_name for call in scene.logger.calls] == ["error"]
    assert not scene.said
    with pytest.raises(UnaskedError):
        scene.sleeping.heard(1, wire.NotAsleep(1, "why"))


def test_the_core_refuses() -> None:
    """Its reason is the operator's answer."""
    scene = Scene(ROOT)
    scene.comes(1)
    scene.dispatcher.refusal = "it is holding"
    assert scene.sleeping.sleep(1) == "it is holding"


def test_all_of_it_left() -> None:
    """A process that comes later under the same pid is another one."""
    scene = Scene(ROOT)
    scene.comes(1)
    scene.sleeping.see_to(Sleep(PID, (1,)))
    scene.sleeping.left(1)
    scene.comes(2)
    with pytest.raises(UnaskedError):
        scene.sleeping.heard(2, wire.Asleep(1))


def test_what_its_context_takes_is_known_when_it_is_back(tmp_path: Path) -> None:
    """By this scheduler, and by the next one, if it was measured before it slept."""
    scene = Scene(ROOT, tmp_path)
    scene.comes(1)
    scene.sleeping.see_to(Sleep(PID, (1,)))
    scene.comes(2)
    assert scene.dispatcher.events[-1] == SleepOffered(2, PID)
    scene.dispatcher.pinned_bytes = GIB
    scene.sleeping.see_to(Sleep(PID, (1, 2)))
    scene.comes(3)
    assert scene.dispatcher.events[-1] == SleepOffered(3, PID, GIB)
    scene = Scene(ROOT, tmp_path)
    scene.comes(1)
    assert scene.dispatcher.events == [SleepOffered(1, PID, GIB)]


def test_it_comes_with_a_file() -> None:
    """Whoever was asleep before may have one, also where nobody here can wake it."""
    scene = Scene(USER)
    scene.comes(1)
    scene.comes(2, user=OTHER)
    for number in (1, 2):
        scene.sleeping.heard(number, wire.Stored())
    assert scene.dispatcher.events[1:] == [ArenaStored(1), ArenaStored(2)]
    assert scene.stored == [1, 2]


def test_its_file_can_not_be_read() -> None:
    """The core hears that it has memory; nothing of it goes on: it does not sleep again, and its calls fail."""
    scene = Scene(ROOT)
    scene.comes(1)
    for frame in (wire.Stored(), wire.Loaded(lost=True)):
        scene.sleeping.heard(1, frame)
    assert scene.dispatcher.events[1:] == [ArenaStored(1), ArenaLoaded(1)]
    assert [call.method_name for call in scene.logger.calls if "lost" in str(call)] == ["error"]
    assert scene.sleeping.times.lost == 1
    scene.sleeping.see_to(Sleep(PID, (1,)))
    assert not scene.said


@pytest.mark.parametrize("frame", [wire.Stored(), wire.NotStored("why"), wire.Loaded()])
def test_nobody_asked_for_a_file(frame: Frame) -> None:
    """What the core refuses, what answers nothing, and what an old library can't know: its connection ends."""
    scene = Scene(ROOT)
    scene.comes(1)
    scene.comes(2, offers=False)
    scene.dispatcher.refusal = "it is awake"
    for number in (1, 2):
        with pytest.raises(UnaskedError):
            scene.sleeping.heard(number, frame)
