"""A client whose memory swaps, as the library's is: it goes by what it is told, and says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Self

from nvshare.protocol import wire
from tests.scheduler.wire_client import WireClient


class Swapper:
    """Follows every order at once."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.memory = wire.Resident(0, 0, 0)
        """What it said last."""
        self.requests = 0
        self.granted = 0
        """The newest request that was granted."""
        self.refused: dict[int, str] = {}
        self.allotted = 0
        self.capacity = 0
        self.grant: int | None = None
        self.evicted: list[int] = []
        """To how much, each time that it had to give memory up."""
        self.arenas: list[int] = []
        """The sizes of the segments that it received."""

    def lock(self) -> Self:
        """Asks for it; that has been worked on, and may be granted."""
        self.client.send(wire.ReqLock())
        self.waits(0)
        return self

    def register(self, **changes: int) -> Self:
        """With what it has."""
        self.client.register(None, swaps=True, footprint_bytes=self.memory.footprint_bytes, **changes)
        self.say()
        return self

    def say(self, **changes: int) -> None:
        """Its memory now."""
        self.memory = replace(self.memory, **changes)
        self.client.send(self.memory)

    def ask(self, footprint_bytes: int, fixed_bytes: int = 0) -> int:
        """Wants so much; the answer is the request's number."""
        self.requests += 1
        self.client.send(wire.Grow(self.requests, footprint_bytes, fixed_bytes))
        return self.requests

    def grow(self, footprint_bytes: int) -> Self:
        """Wants so much, and has it once it is granted: on the device as far as it may."""
        request = self.ask(footprint_bytes)
        self.until(lambda: self.granted == request or self.refused)
        assert self.granted == request, self.refused
        self.say(footprint_bytes=footprint_bytes, resident_bytes=min(footprint_bytes, self.allotted))
        return self

    def until(self, condition: Callable[[], object]) -> None:
        """Takes frames until this is so."""
        while not condition():
            self.take(self.client.receive())

    def waits(self, request: int) -> bool:
        """Whether a request is neither granted nor refused; all that was sent before has been worked on."""
        self.client.send(wire.AskReason())
        while not isinstance(frame := self.client.receive(), wire.Reason):
            self.take(frame)
        return self.granted != request and request not in self.refused

    def take(self, frame: wire.Frame) -> None:
        """Does what a frame asks for."""
        match frame:
            case wire.Allot(order, allotted, admitted, capacity, request):
                self.allotted, self.capacity = allotted, capacity
                self.granted = request or self.granted
                resident = min(allotted, self.memory.footprint_bytes)
                self.say(order=order, admitted_bytes=admitted, resident_bytes=max(resident, self.memory.resident_bytes))
            case wire.Evict(order, allotted):
                self.allotted = allotted
                self.evicted.append(allotted)
                resident = min(allotted, self.memory.resident_bytes)
                self.say(order=order, resident_bytes=resident, out_bytes=self.memory.footprint_bytes - resident)
            case wire.RefuseGrowth(request, text):
                self.refused[request] = text
            case wire.Arena(segment):
                self.arenas.append(segment)
                arena = self.memory.arena_bytes + segment
                self.say(arena_bytes=arena, usable_bytes=arena)
            case wire.LockOk(grant):
                self.grant = grant
            case wire.DropLock(grant):
                self.client.send(wire.LockReleased(grant))
                self.grant = None
            case wire.Waiters():
                pass
            case _:
                raise AssertionError(f"{frame} came")
