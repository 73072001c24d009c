"""The screen in the terminal, drawn again and again until a person quits."""

from __future__ import annotations

from collections.abc import Sequence

from nvshare.ctl.top.feed import feeding
from nvshare.ctl.top.screen import Screen
from nvshare.ctl.top.terminal import whole_terminal
from nvshare.paths import RunDir

_INSTEAD = "nvshare-ctl status --watch -o json"
_FIRST_SECONDS = 0.1
"""Until what a scheduler says first is there."""


def show(run_dirs: Sequence[RunDir], only: str, interval: float) -> None:
    """``only``: the UUID of the only device to show; empty: all."""
    with whole_terminal(_INSTEAD) as terminal, feeding(run_dirs, interval, terminal.wake) as feed:
        screen = Screen(feed, only)
        while True:
            screen.update()
            terminal.draw(screen.draw(*terminal.size))
            is_known = bool(screen.status.scheduler_pid or feed.lost)
            keys = terminal.wait(interval if is_known else min(interval, _FIRST_SECONDS))
            if not all(screen.press(key) for key in keys):
                return
