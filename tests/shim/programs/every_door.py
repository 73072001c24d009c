"""In a process with the library and the counting driver: calls every entry point at once, behind a closed door.

every_door.py LOST. All wait, and none has entered the driver. Then the door opens: what is the driver's own comes in
once; with LOST 1 every call answers error 304 instead, and none comes in.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from dataclasses import dataclass, field

from nvshare.cuda.entrypoints import EntryPoint
from nvshare.protocol import wire
from tests.polling import poll_until
from tests.shim.entrypoints import bodies, entry_points, is_gated, table
from tests.shim.lock_server import LockServer
from tests.shim.programs.driver_calls import DRIVER, Caller, Words, count, ends_at_once, use_device
from tests.shim.thread_state import asleep

LOST = 304
"""CUDA_ERROR_OPERATING_SYSTEM."""
FREE = {row.symbol for row in table() if row.macro == "FREE"} | {"cuGetProcAddress", "cuGetProcAddress_v2"}
ZEROS = ctypes.create_string_buffer(4096)


def words(point: EntryPoint) -> tuple[int, ...]:
    """Pointers lead to zeros, and all else is zero; of what is passed by value and is longer there are zeros enough."""
    pointers = (parameter.type.endswith("*") for parameter in point.parameters)
    return tuple(ctypes.addressof(ZEROS) if pointer else 0 for pointer in pointers)


@dataclass(slots=True)
class Call:
    """One entry point that is called in a thread."""

    point: EntryPoint
    caller: Caller = field(default_factory=Caller)
    results: list[int] = field(default_factory=list)
    before: int = 0

    def begin(self) -> None:
        """Starts the thread."""
        self.before = count(self.point.symbol)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        arguments = Words(*words(self.point))
        self.results.append(DRIVER.spy_call(DRIVER[self.point.symbol], arguments, ctypes.byref(self.caller)))

    def waits(self) -> bool:
        """It is in the call, and sleeps."""
        return bool(self.caller.thread) and asleep("self", self.caller.thread)


def main(lost: bool) -> None:
    peer = use_device(LockServer())
    own = {point.symbol for point in entry_points() if not is_gated(point)} - bodies().keys()
    points = [point for point in entry_points() if point.symbol not in FREE | {"cuGetExportTable"}]
    # What has a body of ours does more, with arguments that are not zeros; what is gated, every_gate.py looks at.
    calls = [Call(point) for point in points if lost or point.symbol in own]
    peer.send(wire.Sleep(7))
    assert peer.expect(wire.Asleep).request == 7
    for call in calls:
        call.begin()
    peer.expect(wire.Wake)
    for call in calls:
        poll_until(call.waits, f"{call.point.symbol} waits")
        assert count(call.point.symbol) == call.before, f"{call.point.symbol} passed the closed door"
    peer.send(wire.Awake(lost))
    for call in calls:
        poll_until(lambda call=call: call.results, f"{call.point.symbol} goes on")
        assert count(call.point.symbol) - call.before == (0 if lost else 1), call.point.symbol
        assert not lost or call.results == [LOST], call.point.symbol
    print(len(calls))


ends_at_once(lambda: main(sys.argv[1] == "1"))
