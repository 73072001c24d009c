"""The clock of the scheduler's event loop, with sockets and with a time that the test moves."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from nvshare.scheduler.event_loop import (
    LONGEST_PATIENCE_SECONDS,
    LOOK_SECONDS,
    PATIENCE_SECONDS,
    WORK_SECONDS,
    EventLoop,
    Hearing,
)

STEP = 0.01


class Time:
    """Seconds that never go back, and that work and stops take at once."""

    def __init__(self) -> None:
        self.passed = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.passed


class Scene:
    """A loop in which peers have something to say."""

    def __init__(self, now: Time, hearing: Hearing, loop: asyncio.AbstractEventLoop) -> None:
        self.now, self.hearing, self.loop = now, hearing, loop
        self.happened: list[str] = []
        self.judged = loop.create_future()

    def judge(self, after: float) -> None:
        """A deadline, so many seconds from now."""
        self.loop.call_later(after, self._judge)

    def _judge(self) -> None:
        self.happened.append("judged")
        self.judged.set_result(None)

    @contextmanager
    def peer(self, messages: int, taking: float, before_each: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Has said so much; each message is read in a pass of its own, which takes so many seconds."""
        ours, theirs = socket.socketpair()
        theirs.send(b"m" * messages)

        def read() -> None:
            before_each()
            ours.recv(1)
            self.now.passed += taking
            self.happened.append("heard")

        self.loop.add_reader(ours, read)
        with ours, theirs:
            yield
            self.loop.remove_reader(ours)

    @contextmanager
    def flood(self) -> Iterator[None]:
        """Somebody always has something to say."""
        ours, theirs = socket.socketpair()
        self.loop.add_writer(ours, self._work)
        with ours, theirs:
            yield
            self.loop.remove_writer(ours)

    def _work(self) -> None:
        self.now.passed += STEP
        self.happened.append("flood")


def played(play: Callable[[Scene], Awaitable[None]]) -> Scene:
    """What happens in a loop of its own."""
    now = Time()
    hearing = Hearing(now)
    with asyncio.Runner(loop_factory=lambda: EventLoop(hearing)) as runner:
        scene = Scene(now, hearing, runner.get_loop())

        async def begin() -> None:
            await play(scene)

        runner.run(begin())
    return scene


def test_all_that_was_said_is_heard_before_a_deadline_is_judged() -> None:
    """Also where reading it takes until long after the deadline, and many passes."""

    async def play(scene: Scene) -> None:
        with scene.peer(messages=8, taking=STEP):
            scene.judge(after=STEP / 2)
            await scene.judged

    assert played(play).happened == ["heard"] * 8 + ["judged"]


def test_what_waits_for_its_turn_is_not_heard() -> None:
    """Though no look finds it."""

    async def play(scene: Scene) -> None:
        left = [1, 2, 3]
        scene.hearing.unread = lambda: bool(left)

        def read() -> None:
            scene.now.passed += STEP
            scene.happened.append("heard")
            left.pop()
            if left:
                scene.loop.call_soon(read)

        scene.loop.call_soon(read)
        scene.judge(after=STEP / 2)
        await scene.judged

    assert played(play).happened == ["heard"] * 3 + ["judged"]


def test_time_stands_still_while_there_is_something_to_hear() -> None:
    """What comes in one go has one time; then the clock goes on by the time that it took."""

    async def play(scene: Scene) -> None:
        times = []
        with scene.peer(messages=5, taking=STEP, before_each=lambda: times.append(scene.loop.time())):
            scene.judge(after=STEP / 2)
            await scene.judged
        assert times[-1] - times[0] < STEP / 2 <= 5 * STEP <= scene.loop.time() - times[0]

    played(play)


def test_a_flood_puts_a_deadline_off_for_a_moment_only() -> None:
    """The clock waits for so much reading, and goes on."""

    async def play(scene: Scene) -> None:
        with scene.flood():
            scene.judge(after=STEP)
            await scene.judged

    assert len(played(play).happened) < 2 * PATIENCE_SECONDS / STEP + 5


@pytest.mark.parametrize("stop", [3.0, 3600.0])
def test_time_in_which_nobody_was_heard_does_not_count(stop: float) -> None:
    """The deadline comes as much later, however long the stop was."""

    async def play(scene: Scene) -> None:
        began, real = scene.loop.time(), scene.now()
        scene.judge(after=1.0)
        scene.now.passed += stop
        await scene.judged
        assert scene.loop.time() - began >= 1.0
        assert scene.now() - real >= stop + 1.0 - WORK_SECONDS

    played(play)


def test_a_stop_during_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says then that there is nothing, though there may be more than is read in a moment."""
    said = int(2 * PATIENCE_SECONDS / STEP)
    look = Hearing.__mro__[1].select  # type: ignore[attr-defined]

    async def play(scene: Scene) -> None:
        ours, theirs = socket.socketpair()

        def interrupted(hearing: Hearing, wait: float) -> list[object]:
            monkeypatch.setattr(Hearing.__mro__[1], "select", look)
            theirs.send(b"m" * said)
            scene.now.passed += 5.0
            return []

        def read() -> None:
            ours.recv(1)
            scene.now.passed += STEP
            scene.happened.append("heard")

        scene.loop.add_reader(ours, read)
        scene.judge(after=LOOK_SECONDS / 2)
        monkeypatch.setattr(Hearing.__mro__[1], "select", interrupted)
        with ours, theirs:
            await scene.judged
            scene.loop.remove_reader(ours)

    assert played(play).happened == ["heard"] * said + ["judged"]


@pytest.mark.parametrize("stop", [1.0, 3600.0])
def test_after_a_stop_there_is_more_to_hear(stop: float) -> None:
    """What came meanwhile is read first; a flood is not waited for, however long the stop was."""

    async def play(scene: Scene) -> None:
        said = int(min(stop, LONGEST_PATIENCE_SECONDS) / STEP)
        with scene.peer(messages=said // 2, taking=STEP):
            scene.judge(after=STEP)
            scene.now.passed += stop + WORK_SECONDS
            await scene.judged
        assert scene.happened == ["heard"] * (said // 2) + ["judged"]
        scene.happened.clear()
        scene.judged = scene.loop.create_future()
        with scene.flood():
            scene.judge(after=STEP)
            scene.now.passed += stop + WORK_SECONDS
            await scene.judged
        assert len(scene.happened) < 2 * said + 50

    played(play)
