"""What the operator wants to sleep, or to wake: from a name to processes, and what is said where that can't be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from nvshare.scheduler.commands import InvalidCommandError
from nvshare.scheduler.registered_client import RegisteredClient


class CantSleepError(InvalidCommandError):
    """Processes of what a command names can't sleep now."""


class Sleeping(Protocol):
    """What puts processes to sleep and wakes them: each by one of its clients, whichever."""

    def sleep(self, client: int) -> str:
        """Has its process sleep as soon as its memory is out; why it can't now, empty: it can."""

    def awake_reason(self, client: int) -> str:
        """Why its process can't sleep, whatever it does; empty: as far as is known it can."""

    def wake(self, client: int) -> None:
        """Has its process come back; nothing where it is awake."""


class SleepCommands:
    """Commands by name. The name stands for all processes of a container, or for one."""

    def __init__(
        self,
        sleeping: Sleeping,
        clients: Mapping[int, RegisteredClient],
        named: Callable[[str], Iterable[int]],
    ) -> None:
        """``named``: the clients that a name stands for; InvalidCommandError: none."""
        self._sleeping = sleeping
        self._clients = clients
        self._named = named

    def sleep(self, name: str) -> None:
        """CantSleepError where one of the processes can't now; the others sleep."""
        reasons = {pid: self._sleeping.sleep(client) for pid, client in self._processes(name).items()}
        if listed := "; ".join(f"pid {pid}: {reason}" for pid, reason in reasons.items() if reason):
            raise CantSleepError(f"{name} can't sleep: {listed}")

    def wake(self, name: str) -> None:
        """Those that sleep."""
        for client in self._processes(name).values():
            self._sleeping.wake(client)

    def awake_reason(self, client: int) -> str:
        """Why its process can't sleep, whatever it does; empty: as far as is known it can."""
        return self._sleeping.awake_reason(client)

    def _processes(self, name: str) -> dict[int, int]:
        """One client of each process, by the pid."""
        return {self._clients[client].pid: client for client in self._named(name)}
