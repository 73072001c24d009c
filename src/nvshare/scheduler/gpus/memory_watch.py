"""Measures the devices' memory every two seconds, where there are clients, and tells the core what is new.

Where memory swaps, what clients have changes all the time, and they say so up to 10 ms later. So a measurement counts
only if the clients' words were the same before it and a moment after it. Else it is made again soon. After some tries
that part of it counts which does not depend on the clients' words.

Where NVML fails, or does not answer in time, what is known counts for whoever waits for a measurement.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from nvshare.scheduler.core.snapshot import DeviceSnapshot
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.gpus import memory, queries
from nvshare.scheduler.gpus.memory import Measured, Usage
from nvshare.scheduler.gpus.nvml_watch import NvmlWatch
from nvshare.scheduler.gpus.queries import Unmeasured
from nvshare.scheduler.recovery.swappers import Departed, Returning

_INTERVAL_SECONDS = 2.0
_UNUSED_EVERY = 5
"""A device without clients is measured in one of this many rounds: only people look at it."""
_SAYING_SECONDS = 0.03
"""After so long what clients had on the device during a measurement has been said."""
_SOON_SECONDS = 0.1
_ANSWER_SECONDS = 2.0
"""How long an answer of NVML is awaited, which may hang. One that comes later counts then."""
_TRIES = 10
"""Measurements in a row of a device whose clients' memory moves of which none counts but the last."""

Moving = dict[str, dict[int, int]]
"""By device and client, how much it has there whose memory swaps."""


class MemoryWatch:
    """NVML is asked in a worker; while an answer is outstanding NVML is asked nothing more."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        nvml: NvmlWatch,
        dispatcher: Dispatcher,
        known: Mapping[str, object],
        departed: Departed,
        returning: Returning,
    ) -> None:
        """``known``: the devices that NVML knows; there may be more later."""
        self._loop = loop
        self._nvml = nvml
        self._dispatcher = dispatcher
        self._known = known
        self._departed = departed
        self._returning = returning
        self._asking = False
        """A round is on its way."""
        self._unanswered = False
        """NVML was asked, in this round or in one before it."""
        self._again = False
        """The next round comes soon after it."""
        self._tries: Counter[str] = Counter()
        """Measurements of each device that did not count, since one did."""
        self._round = 0
        self.measured: set[str] = set()
        """The devices whose memory NVML said when it was asked last."""
        self._timer: asyncio.Handle = loop.call_soon(self._ask)

    def stop(self) -> None:
        """Asks no more."""
        self._timer.cancel()

    def ask_soon(self) -> None:
        """Asks now, or again as soon as the present answer is there."""
        if self._asking:
            self._again = True
        else:
            self._timer.cancel()
            self._timer = self._loop.call_soon(self._ask)

    def _ask(self) -> None:
        used = {client.device for client in self._dispatcher.clients.values()}
        used |= self._departed.devices | self._returning.devices
        known = self._known.keys()
        devices = sorted(known if self._round % _UNUSED_EVERY == 0 else used & known)
        self._round += 1
        if not devices:
            self._ask_later()
            return
        self._asking = True
        asked, before = self._loop.time(), _moving(self._dispatcher.snapshot())
        seconds = _SOON_SECONDS if self._unanswered else _ANSWER_SECONDS
        self._timer = self._loop.call_later(seconds, self._take, asked, before, dict.fromkeys(devices))
        if not self._unanswered:
            self._unanswered = True
            answered = partial(self._answered, self._timer, asked, before)
            self._nvml.submit(lambda: {device: queries.usage(device) for device in devices}, answered)

    def _answered(
        self, round_: asyncio.Handle, asked: float, before: Moving, answers: dict[str, Usage | Unmeasured]
    ) -> None:
        self._unanswered = False
        usages = {device: self._nvml.measured(device, answer) for device, answer in answers.items()}
        if round_ is not self._timer:
            self._tell(asked, before, usages)
            return
        round_.cancel()
        if any(before.get(device) for device in usages):
            self._timer = self._loop.call_later(_SAYING_SECONDS, self._take, asked, before, usages)
        else:
            self._take(asked, before, usages)

    def _take(self, asked: float, before: Moving, usages: dict[str, Usage | None]) -> None:
        """The end of a round."""
        self._tell(asked, before, usages)
        self._asking = False
        self._ask_later()

    def _tell(self, asked: float, before: Moving, usages: dict[str, Usage | None]) -> None:
        self.measured.difference_update(usages)
        self.measured.update(device for device, usage in usages.items() if usage is not None)
        clients = self._dispatcher.clients
        processes = {number: memory.Process(client.pid, client.backend) for number, client in clients.items()}
        for snapshot in self._dispatcher.snapshot():
            device = snapshot.device
            if device not in usages:
                continue
            after = _moving((snapshot,))[device]
            moved = {number for number, had in after.items() if before.get(device, {}).get(number) != had}
            if moved and self._tries[device] < _TRIES:
                self._tries[device] += 1
                self._again = True
                continue
            del self._tries[device]
            usage = usages[device]
            gone = self._departed.pids(device, asked) | self._returning.pids(device, asked)
            if usage is None:
                events: Sequence[Measured] = memory.unmeasured(snapshot)
            else:
                settled = self._returning.is_over(asked)
                events = memory.measured(snapshot, processes, usage, moved, gone, settled=settled)
            for event in events:
                self._dispatcher.feed(event)
            self._departed.measured(device, asked)
            self._returning.measured(device, asked)

    def _ask_later(self) -> None:
        delay = _SOON_SECONDS if self._again else _INTERVAL_SECONDS
        self._again = False
        self._timer = self._loop.call_later(delay, self._ask)


def _moving(devices: Iterable[DeviceSnapshot]) -> Moving:
    """What the clients of each device have there that swaps, or could."""
    return {
        device.device: {client.client: memory.on_device(client) for client in device.clients if client.swap is not None}
        for device in devices
    }
