"""Waits for processes without a connection whose memory swaps: those of the scheduler before this one, and of this one.

Memory of the former may be anywhere on the device. So nobody gets memory there before each of them is back, or gone, or
its memory was measured as others'. Memory of the latter counts until the driver shows that it is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from nvshare.log import Log
from nvshare.scheduler.recovery.awaited import Process
from nvshare.scheduler.recovery.process_end import ProcessEnd
from nvshare.scheduler.recovery.record import Recorded

RETURN_SECONDS = 2.0
"""How long one has to come back. A client connects again after a second at the latest."""
_FREEING_SECONDS = 0.1
"""After a process has ended its memory is free, as far as one can say where nobody says it."""


class Returning:
    """Those of the scheduler before this one that are neither back, nor dead, nor awaited long enough."""

    def __init__(
        self,
        former: Iterable[Recorded],
        loop: asyncio.AbstractEventLoop,
        log: Log,
        is_measured: Callable[[str], bool],
        measure_soon: Callable[[], None],
        settled: Callable[[int], None],
    ) -> None:
        """``is_measured``: whether somebody measures a device and says so to ``measured``, soon if that is asked for.

        ``settled`` is called with the number in the record of each that is awaited no longer.
        """
        self._loop = loop
        self._log = log
        self._is_measured = is_measured
        self._measure_soon = measure_soon
        self._settled = settled
        self._given_up: dict[int, float] = {}
        """When those were that still count as awaited: until what they have was measured after that."""
        self._awaited = {each.number: each for each in former}
        self._ends = {
            each.number: ProcessEnd(loop, each.pid, each.started, partial(self._settle, each.number))
            for each in self._awaited.values()
            if each.pid and each.started
        }
        self._until = loop.time() + RETURN_SECONDS
        self._timer = loop.call_at(self._until, self._give_up)

    def awaits(self, process: Process) -> bool:
        """Whether a process had memory that swaps, and is not back."""
        return bool(self._numbers(process))

    def back(self, process: Process) -> None:
        """A process is back, and what it has is known."""
        for number in self._numbers(process):
            self._settle(number)

    def is_over(self, asked: float) -> bool:
        """Whether all who began without a scheduler had come when a measurement began at ``asked``."""
        return asked >= self._until

    @property
    def devices(self) -> set[str]:
        """Those where memory of such processes may be."""
        return {each.device for each in self._awaited.values()}

    def pids(self, device: str, asked: float) -> set[int]:
        """Whose bytes on a device are not foreign for a measurement that began at ``asked``, though no client's yet."""
        here = (each for each in self._awaited.values() if each.device == device)
        return {each.pid for each in here if not self._is_foreign(each.number, asked)}

    def measured(self, device: str, asked: float) -> None:
        """A measurement of a device that began at ``asked`` is done, and what others have there is told."""
        for each in list(self._awaited.values()):
            if each.device == device and self._is_foreign(each.number, asked):
                self._settle(each.number)

    def stop(self) -> None:
        """Awaits nobody any more."""
        self._timer.cancel()
        for end in self._ends.values():
            end.stop()
        self._ends.clear()
        self._awaited.clear()

    def _numbers(self, process: Process) -> list[int]:
        former = self._awaited.values() if process.pid else ()
        return [each.number for each in former if Process(each.device, each.pid, each.started) == process]

    def _give_up(self) -> None:
        for each in list(self._awaited.values()):
            self._log.warning(
                "the device waits no longer for a process whose memory swaps; what it has there counts as foreign",
                pid=each.pid,
                command=each.command,
                device=each.device,
            )
            self._given_up[each.number] = self._loop.time()
            if not self._is_measured(each.device):
                self._settle(each.number)
        if self._given_up:
            self._measure_soon()

    def _is_foreign(self, number: int, asked: float) -> bool:
        """Whether it was given up before a measurement that began at ``asked``."""
        return self._given_up.get(number, float("inf")) <= asked

    def _settle(self, number: int) -> None:
        del self._awaited[number]
        self._given_up.pop(number, None)
        end = self._ends.pop(number, None)
        if end is not None:
            end.stop()
        self._settled(number)


@dataclass(slots=True, eq=False)
class _Gone:
    """A client whose connection has ended."""

    process: Process
    since: float
    ended: float | None = None
    """When its process had ended; None: it has not, as far as one can see."""
    end: ProcessEnd | None = None


class Departed:
    """Clients without a connection whose memory counts still."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        is_measured: Callable[[str], bool],
        measure_soon: Callable[[], None],
        freed: Callable[[int], None],
    ) -> None:
        """``is_measured``: whether somebody measures a device and says so to ``measured``, soon if that is asked for.

        ``freed`` is called with the number of each client whose memory counts no longer as that client's.
        """
        self._loop = loop
        self._is_measured = is_measured
        self._measure_soon = measure_soon
        self._freed = freed
        self._gone: dict[int, _Gone] = {}

    @property
    def devices(self) -> set[str]:
        """Those where memory of such clients may be."""
        return {gone.process.device for gone in self._gone.values()}

    def left(self, number: int, process: Process) -> None:
        """A client's connection ended."""
        gone = _Gone(process, self._loop.time())
        self._gone[number] = gone
        if process.pid and process.started:
            gone.end = ProcessEnd(self._loop, process.pid, process.started, lambda: self._ended(number))
        else:
            self._ended(number)

    def back(self, process: Process) -> None:
        """A process is back: its memory is the new client's."""
        for number, gone in list(self._gone.items()):
            if process.pid and gone.process == process:
                self._free(number)

    def pids(self, device: str, asked: float) -> set[int]:
        """Whose bytes on a device are still theirs, for a measurement that began at ``asked``; others' are foreign."""
        return {
            gone.process.pid
            for gone in self._gone.values()
            if gone.process.device == device and not self._lives_on(gone, asked)
        }

    def measured(self, device: str, asked: float) -> None:
        """A measurement of a device that began at ``asked`` is done, and what others have there is told."""
        for number, gone in list(self._gone.items()):
            ended = gone.ended is not None and gone.ended <= asked
            if gone.process.device == device and (ended or self._lives_on(gone, asked)):
                self._free(number)

    def stop(self) -> None:
        """Watches nobody any more."""
        for gone in self._gone.values():
            if gone.end is not None:
                gone.end.stop()
        self._gone.clear()

    def _lives_on(self, gone: _Gone, asked: float) -> bool:
        """Whether it runs without a connection, and has not come back in time: then it is no client any more."""
        return gone.ended is None and asked - gone.since >= RETURN_SECONDS

    def _ended(self, number: int) -> None:
        gone = self._gone[number]
        gone.ended = self._loop.time()
        if self._is_measured(gone.process.device):
            self._measure_soon()
        else:
            self._loop.call_later(_FREEING_SECONDS, self._free_if_gone, number, gone)

    def _free_if_gone(self, number: int, gone: _Gone) -> None:
        if self._gone.get(number) is gone:
            self._free(number)

    def _free(self, number: int) -> None:
        gone = self._gone.pop(number)
        if gone.end is not None:
            gone.end.stop()
        self._freed(number)
