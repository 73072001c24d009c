"""A scheduler with little host memory, and processes with data that sleep."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nvshare.protocol import wire
from tests.scheduler.sleeping.sleepy import OPTIONS, Sleepy, SleepyProcess, all_see
from tests.scheduler.wire_client import Scheduler

Serve = Callable[..., Scheduler]
Start = Callable[..., SleepyProcess]
MIB = 1 << 20
DATA = 96 * MIB
"""Of each process. It has host memory for 64 MiB more, which it may have beside that unasked."""


class Scene:
    """All of it."""

    def __init__(
        self, serve: Serve, start: Start, devices: dict[str, str], host_bytes: int, options: Sequence[str] = ()
    ) -> None:
        """``options``: of its schedulers, where no others are said."""
        self._serve, self.start, self._devices = serve, start, devices
        self._host_bytes, self._options = host_bytes, options
        self.clients: list[Sleepy] = []
        self.scheduler = self.serve()

    def serve(self, *options: str) -> Scheduler:
        """Another scheduler after the one before, which has ended."""
        given = (*OPTIONS, f"--host-memory={self._host_bytes}", "--metrics-address=127.0.0.1:0")
        self.scheduler = self._serve(*given, *(options or self._options), environment=self._devices)
        return self.scheduler

    def again(self, *options: str) -> None:
        """The scheduler dies, and all processes come to the next one."""
        self.scheduler.kill()
        self.serve(*options)
        self.clients = [client.again(self.scheduler) for client in self.clients]

    def sees(self, condition: Callable[[], object], what: str) -> None:
        """All take frames until this is so."""
        all_see(self.clients, condition, what)

    def comes(self) -> Sleepy:
        """One more that wants to have data."""
        client = Sleepy(self.start(), self.scheduler).come()
        self.clients.append(client)
        request = client.ask(DATA)
        self.sees(lambda: client.granted == request or client.refused, "it has an answer")
        if not client.refused:
            # It may have to leave already.
            there = min(DATA, client.allotted)
            client.say(footprint_bytes=DATA, resident_bytes=there, out_bytes=DATA - there)
        return client

    def sleeps(self, *clients: Sleepy) -> None:
        """All of these, with their data."""
        self.sees(lambda: all(each.shown() == "asleep" for each in clients or self.clients), "all sleep")

    def wakes(self, client: Sleepy) -> None:
        """With its data."""
        woken = client.woken
        client.client.send(wire.Wake())
        self.sees(lambda: client.woken > woken, "it is awake")
        assert client.file is None
        assert not client.blocks.away_bytes

    def leaves(self, client: Sleepy) -> None:
        """Its process ends."""
        self.clients.remove(client)
        client.client.close()
        client.process.kill()
