"""A real scheduler finds out whether two clients do better together or in turns, as they and the operator see it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from nvshare.protocol import wire
from tests.scheduler.api.pages import figures
from tests.scheduler.wire_client import TIMEOUT_SECONDS, Scheduler, WireClient

Serve = Callable[..., Scheduler]


@dataclass(slots=True)
class Player:
    """A client that works as fast as the test says, and tells so."""

    client: WireClient
    grant: int = 0
    waits: bool = False
    interval_seconds: float = 0.0
    next_at: float = 0.0
    submissions: float = 0.0
    at: float = 0.0

    def report(self) -> None:
        """Says how far it is, if it is asked."""
        if self.interval_seconds:
            self.next_at = self.at + self.interval_seconds
            self.client.send(wire.Progress(int(self.submissions), int(self.at * 1e6)))

    def hear(self) -> None:
        """Obeys the next frame, if there is one soon."""
        try:
            frame = self.client.receive(0.002)
        except TimeoutError:
            return
        match frame:
            case wire.Watch(idle_microseconds):
                self.interval_seconds = idle_microseconds / 1e6
            case wire.LockOk(grant):
                self.grant, self.waits = grant, False
                self.report()
            case wire.DropLock(grant):
                self.report()
                self.client.send(wire.LockReleased(grant))
                self.grant = 0
            case _:
                assert isinstance(frame, wire.Waiters), frame

    def work(self, rate: float) -> None:
        """Lets the time since the last call pass, with so many submissions a second if it holds."""
        now = time.monotonic()
        self.submissions += rate * (now - self.at) if self.grant else 0.0
        self.at = now
        if not self.grant and not self.waits:
            self.client.send(wire.ReqLock())
            self.waits = True
        if self.grant and now >= self.next_at:
            self.report()


def play(players: list[Player], together: float, until: Callable[[], bool]) -> None:
    """Lets them work, as fast as ``together`` times what one alone does, until something is so."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    looked = 0.0
    for player in players:
        player.at = time.monotonic()
    while time.monotonic() < deadline:
        holders = sum(player.grant > 0 for player in players)
        for player in players:
            player.work(2000.0 if holders < 2 else 2000.0 * together / holders)
            player.hear()
        if time.monotonic() > looked + 0.2:
            looked = time.monotonic()
            if until():
                return
    raise AssertionError("it was not decided")


def able(scheduler: Scheduler) -> WireClient:
    """A registered client that can report."""
    client = scheduler.client().register()
    client.send(wire.Terms())
    return client


@pytest.mark.parametrize(("together", "turns"), [(1.9, False), (0.6, True)])
def test_two_are_measured(serve: Serve, together: float, turns: bool) -> None:
    """Both are asked for their progress, take short turns for a moment, and go on as is better; the status says so."""
    scheduler = serve("--metrics-address=127.0.0.1:0")
    players = [Player(able(scheduler)), Player(able(scheduler))]
    play(players, together, lambda: scheduler.status().devices[0].mix.HasField("ratio"))
    shown = scheduler.status().devices[0]
    assert shown.mix.turns is turns
    assert shown.mix.ratio == pytest.approx(together, rel=0.25)
    states = ["holding", "waiting"] if turns else ["holding", "holding"]
    play(players, together, lambda: sorted(scheduler.states().values()) == states)
    seen = figures(scheduler)
    label = f'{{gpu="{shown.uuid}"}}'
    assert seen[f"nvshare_together_ratio{label}"] == shown.mix.ratio
    assert seen[f"nvshare_turns_are_better{label}"] == turns


def test_one_is_not_watched(serve: Serve) -> None:
    """Who has the device to itself is not asked; with the second one both are, and when that ends nobody is."""
    scheduler = serve()
    first, second = able(scheduler), able(scheduler)
    first.lock()
    assert first.has_nothing()
    second.send(wire.ReqLock())
    assert {type(second.receive()), type(second.receive())} == {wire.Watch, wire.LockOk}
    assert first.expect(wire.Watch).idle_microseconds > 0
    second.close()
    assert first.expect(wire.Watch).idle_microseconds == 0


def test_who_can_not_report_is_not_asked(serve: Serve) -> None:
    """A client of an older library beside a newer one: nobody is asked, they hold together."""
    scheduler = serve()
    older, newer = scheduler.client().register(), able(scheduler)
    older.lock()
    newer.lock()
    assert older.has_nothing()
    assert newer.has_nothing()


@pytest.mark.parametrize(
    "frames",
    [
        [wire.Progress(1, 1)],
        [wire.Terms(), wire.Progress(5, 1), wire.Progress(4, 2)],
        [wire.Terms(), wire.Progress(5, 2), wire.Progress(5, 1)],
        [wire.Terms(), wire.Progress(1, 1, looks=5), wire.Progress(2, 2, looks=4)],
        [wire.Terms(), wire.Progress(1, 1, looks=1, empty_looks=2)],
    ],
    ids=["not offered", "fewer", "earlier", "fewer looks", "more empty looks than looks"],
)
def test_what_can_not_be(serve: Serve, frames: list[wire.Frame]) -> None:
    """Who reports what can't be so is disconnected."""
    client = serve().client().register()
    for frame in frames:
        client.send(frame)
    client.raw.wait_closed()


@pytest.mark.parametrize("frame", [wire.Terms(), wire.Progress(1, 1)])
def test_before_it_has_registered(serve: Serve, frame: wire.Frame) -> None:
    """Who has not said who it is has nothing to report."""
    client = serve().client()
    client.send(frame)
    client.raw.wait_closed()
