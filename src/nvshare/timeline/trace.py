"""A timeline as a file for https://ui.perfetto.dev or chrome://tracing: Chrome's trace event format. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class Trace:
    """A process for each device, in it tracks by name, on them slices. Times are microseconds."""

    def __init__(self) -> None:
        self._devices: dict[str, int] = {}
        self._tracks: dict[tuple[str, str], int] = {}
        self._events: list[dict[str, Any]] = []

    def add_device(self, uuid: str, name: str) -> None:
        """A device; before its slices."""
        self._devices[uuid] = len(self._devices) + 1
        self._events.append(_name("process_name", self._devices[uuid], 0, name))

    def add_slice(
        self, device: str, track: str, label: str, begin: float, length: float, details: Mapping[str, Any]
    ) -> None:
        """Something that took a while; its track is made when it is first used."""
        process = self._devices[device]
        if (device, track) not in self._tracks:
            self._tracks[device, track] = len(self._tracks) + 1
            self._events.append(_name("thread_name", process, self._tracks[device, track], track))
        times = {"ts": begin, "dur": length}
        place = {"pid": process, "tid": self._tracks[device, track]}
        self._events.append({"ph": "X", "name": label, **place, **times, "args": dict(details)})

    def text(self) -> str:
        """The file."""
        return json.dumps({"displayTimeUnit": "ms", "traceEvents": self._events}, separators=(",", ":"))


def _name(what: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": text}}
