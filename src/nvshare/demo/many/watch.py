"""Many programs while they run: what is known of each, redrawn in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import assert_never

from rich.console import Console, RenderableType
from rich.live import Live

from nvshare import display
from nvshare.demo.clients import ClientStates, Seen
from nvshare.demo.errors import DemoError
from nvshare.demo.many import terminal
from nvshare.demo.many.crowd import Crowd, Heard, MemoryUse
from nvshare.demo.plan import Answered, Broken
from nvshare.demo.processes import Ended
from nvshare.demo.report import DeviceInfo

_TICK_SECONDS = 0.1
_LINE_SECONDS = 5.0
_SILENCE_SECONDS = 60.0
_LAST_SLEEP_SECONDS = 15.0


@dataclass(slots=True)
class Known:
    """What is known of a program at the moment."""

    requests: int
    state: str = "to come"
    has_context: bool = False
    sleeps: int = 0
    answers: list[Answered] = field(default_factory=list)
    broken: str = ""
    ended: bool = False

    @property
    def is_done(self) -> bool:
        """It answers nothing any more."""
        return self.ended or len(self.answers) == self.requests

    @property
    def is_asleep(self) -> bool:
        """And nothing of it is on the GPU."""
        return self.state == "asleep" and not self.has_context


class Watch:
    """Starts the programs, follows them, and shows how they do."""

    def __init__(self, console: Console, device: DeviceInfo, programs: Crowd, memory: MemoryUse) -> None:
        self._console, self._device, self._crowd, self._memory = console, device, programs, memory
        self.known = [Known(len(plan.rests)) for plan in programs.plans]
        self.most_asleep = 0
        self._start = self._heard = time.monotonic()
        self._printed = 0.0

    def follow(self, client_states: ClientStates, start_seconds: float) -> None:
        """Starts a program every ``start_seconds``; returns when all have answered, and all sleep who can.

        DemoError when nobody answers any more.
        """
        with self._live() as live:
            while not self._is_over():
                if not self._crowd.is_complete and self._age() >= len(self._crowd.processes) * start_seconds:
                    self._crowd.start_next()
                self._take_events()
                self._take_states(client_states())
                self._show(live)
                if time.monotonic() > self._heard + _SILENCE_SECONDS:
                    raise DemoError(f"no program has answered for {_SILENCE_SECONDS:g} s: {self._counted()}")

    def _is_over(self) -> bool:
        if not all(each.is_done for each in self.known):
            return False
        all_sleep = all(each.is_asleep for each in self.known if not each.ended)
        return all_sleep or time.monotonic() > self._heard + _LAST_SLEEP_SECONDS

    def _take_events(self) -> None:
        """Waits a moment for the first event, then takes all that are there."""
        try:
            self._take_event(self._crowd.events.get(timeout=_TICK_SECONDS))
            while True:
                self._take_event(self._crowd.events.get_nowait())
        except queue.Empty:
            pass

    def _take_event(self, heard: Heard) -> None:
        known = self.known[heard.place]
        self._heard = time.monotonic()
        match heard.event:
            case Answered() as answer:
                known.answers.append(answer)
            case Broken(message):
                known.broken = message
            case Ended(exit_code):
                known.ended, known.state, known.has_context = True, "ended", False
                known.broken = known.broken or f"exit code {exit_code}"
            case _:
                assert_never(heard.event)

    def _take_states(self, states: Mapping[int, Seen]) -> None:
        for process, known in zip(self._crowd.processes, self.known, strict=False):
            seen = states.get(process.pid)
            if known.ended:
                continue
            if seen is None:
                known.state = "starting" if known.state == "to come" else known.state
            else:
                known.state, known.has_context, known.sleeps = seen.state, seen.has_context, seen.sleeps
        self.most_asleep = max(self.most_asleep, sum(each.is_asleep for each in self.known))

    @contextmanager
    def _live(self) -> Iterator[Live | None]:
        if not self._console.is_terminal or self._console.is_dumb_terminal:
            yield None
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            yield live

    def _show(self, live: Live | None) -> None:
        if live is not None:
            live.update(self._picture(), refresh=True)
        elif self._age() >= self._printed + _LINE_SECONDS:
            self._printed = self._age()
            self._console.print(f"{display.duration(self._age()):>7}  {self._counted()}", soft_wrap=True)

    def _picture(self) -> RenderableType:
        states = [each.state for each in self.known]
        return terminal.live(states, self._counted(), self._console.width)

    def _counted(self) -> str:
        states = Counter(each.state for each in self.known)
        known = ", ".join(f"{states[state]} {state}" for state in (*display.STATE_STYLES, "ended") if states[state])
        answers = sum(len(each.answers) for each in self.known)
        asked = sum(each.requests for each in self.known)
        use = f"{display.size(self._memory.bytes)} of {display.size(self._device.total_bytes)} in use"
        return f"{known or 'nobody yet'}; {answers} of {asked} answers; {use}"

    def _age(self) -> float:
        return time.monotonic() - self._start
