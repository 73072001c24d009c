"""The nodes of a cluster in the terminal, asked again and again until a person quits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.ctl.errors import CommandError
from nvshare.ctl.kubectl.answers import Ask, NodeAnswer
from nvshare.ctl.kubectl.output import heading, no_answer
from nvshare.ctl.showing.status_document import to_status
from nvshare.ctl.top.figures import Colors, shares_between
from nvshare.ctl.top.sections import Look, clients, name_of, overview
from nvshare.ctl.top.terminal import whole_terminal

_STATUS = ("status", "--output", "json")
_KEYS = "q quit  up/down, tab scroll  space pause"
_INSTEAD = "kubectl nvshare status -o json"
_STEP_LINES = 5


def show(ask: Ask, interval: float) -> None:
    """A cluster that does not answer at all is an error at first, and later waited for."""
    screen = _Screen(interval)
    screen.take(ask(*_STATUS))
    with whole_terminal(_INSTEAD) as terminal:
        news: queue.SimpleQueue[list[NodeAnswer] | str] = queue.SimpleQueue()
        stop = threading.Event()
        arguments = (ask, interval, news, terminal.wake, stop)
        threading.Thread(target=_ask_again, args=arguments, daemon=True).start()
        while True:
            with suppress(queue.Empty):
                while True:
                    screen.take(news.get_nowait())
            terminal.draw(screen.draw(*terminal.size))
            keys = terminal.wait(interval)
            if not all(screen.press(key) for key in keys):
                stop.set()
                return


def _ask_again(
    ask: Ask,
    interval: float,
    news: queue.SimpleQueue[list[NodeAnswer] | str],
    wake: Callable[[], None],
    stop: threading.Event,
) -> None:
    while not stop.wait(interval):
        try:
            news.put(ask(*_STATUS))
        except CommandError as error:
            news.put(str(error))
        wake()


@dataclass(slots=True)
class _Screen:
    interval: float
    nodes: dict[str, _Node] = field(default_factory=dict)
    failure: str = ""
    """Why nobody could be asked; the last answers stay."""
    asked: datetime = field(default_factory=lambda: datetime.now().astimezone())
    colors: Colors = field(default_factory=Colors)
    first: int = 0
    """The first line that is shown of what the nodes say."""
    paused: bool = False

    def take(self, news: Sequence[NodeAnswer] | str) -> None:
        """What all nodes answered, or why nobody could be asked."""
        if self.paused:
            return
        if isinstance(news, str):
            self.failure = news
            return
        self.failure, self.asked = "", datetime.now().astimezone()
        self.nodes = {answer.pod: _node(answer, self.nodes.get(answer.pod)) for answer in news}

    def press(self, key: str) -> bool:
        """Does what the key means; False: to quit."""
        match key:
            case "up":
                self.first = max(self.first - _STEP_LINES, 0)
            case "down":
                self.first += _STEP_LINES
            case " ":
                self.paused = not self.paused
            case _:
                pass
        return key != "q"

    def draw(self, width: int, height: int) -> RenderableType:
        """So many lines at the most."""
        lines = [line for node in self.nodes.values() for line in [*_section(node, self.colors, width), Text()]][:-1]
        room = max(height - 2, 1)
        self.first = max(min(self.first, len(lines) - room), 0)
        shown = lines[self.first : self.first + room]
        more = len(lines) - self.first - len(shown)
        bottom = f"{_KEYS}  ({more} more lines below)" if more else _KEYS
        shown += [Text()] * (room - len(shown))
        return Group(self._heading(), *shown, Text(bottom, "dim", no_wrap=True, overflow="ellipsis"))

    def _heading(self) -> Text:
        if self.failure:
            return Text(f"{self.failure}; it is tried again", "bold yellow", no_wrap=True, overflow="ellipsis")
        silent = sum(node.status is None for node in self.nodes.values())
        text = display.count(len(self.nodes), "node") + (f", {silent} without an answer" if silent else "")
        heading = f"nvshare  {text}  asked at {self.asked:%H:%M:%S}, every {self.interval:g} s"
        return Text.assemble(
            (heading, "bold"),
            ("  PAUSED", "bold yellow") if self.paused else "",
            no_wrap=True,
            overflow="ellipsis",
        )


@dataclass(frozen=True, slots=True)
class _Node:
    answer: NodeAnswer
    status: admin_pb2.Status | None
    shares: dict[int, float]
    """Of the time since it was asked before."""


def _node(answer: NodeAnswer, before: _Node | None) -> _Node:
    status = None if answer.document is None else to_status(answer.document)
    if before is None or before.status is None or status is None:
        return _Node(answer, status, {})
    return _Node(answer, status, shares_between(before.status, status))


def _section(node: _Node, colors: Colors, width: int) -> list[Text]:
    """Everything that there is to say of a node, line by line."""
    title = heading(node.answer)
    if node.status is None:
        return [title, no_answer(node.answer)]
    look = Look(width, colors, node.shares)
    lines = [title]
    if not node.status.devices:
        return [*lines, Text("no device yet", "dim")]
    lines += overview(node.status.devices, "", look)
    for device in node.status.devices:
        if device.clients:
            lines += [Text(f"clients of {name_of(device)}", "dim"), *clients(device, look)]
    return lines
