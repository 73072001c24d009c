"""What each container did on each GPU, and has there: clients that are gone count in what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nvshare.scheduler.api.places import Labels, Places, in_pod, outside
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot
from nvshare.scheduler.pods.identity import Source
from nvshare.scheduler.registered_client import RegisteredClient


@dataclass(frozen=True, slots=True)
class Done:
    """What somebody did so far."""

    held_seconds: float = 0.0
    waited_seconds: float = 0.0
    grants: int = 0
    came_bytes: int = 0
    """From host memory."""
    left_bytes: int = 0
    """For host memory."""
    sleeps: int = 0

    @staticmethod
    def by(client: ClientSnapshot) -> Done:
        """One client, since it was registered."""
        swap = client.swap
        moved = (0, 0) if swap is None else (swap.came_bytes, swap.left_bytes)
        return Done(client.held_seconds, client.waited_seconds, client.grants, *moved, client.sleeps)

    def and_from(self, before: Done, now: Done) -> Done:
        """This, and what somebody did between two moments."""
        return Done(
            self.held_seconds + max(0.0, now.held_seconds - before.held_seconds),
            self.waited_seconds + max(0.0, now.waited_seconds - before.waited_seconds),
            self.grants + now.grants - before.grants,
            self.came_bytes + now.came_bytes - before.came_bytes,
            self.left_bytes + now.left_bytes - before.left_bytes,
            self.sleeps + now.sleeps - before.sleeps,
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """One container on one GPU."""

    labels: Labels
    done: Done
    clients: tuple[ClientSnapshot, ...]
    """That are there now."""


class ContainerUsage:
    """Counts what clients did for the container that each is in at that time.

    No figure falls while its series is shown: a client's end, or the news of who it is, moves nothing that was counted
    before to another container. Used in the event loop only.
    """

    def __init__(self, clients: Callable[[], Mapping[int, RegisteredClient]], now: Callable[[], float]) -> None:
        """``clients``: those that are registered."""
        self._clients = clients
        self._places = Places(now)
        self._done: dict[Labels, Done] = {}
        self._counted: dict[int, Done] = {}
        """By client: what is counted already."""

    def leaving(self, number: int, last: ClientSnapshot) -> None:
        """A client is about to be gone."""
        self._count(last)
        del self._counted[number]

    def now(self, devices: Iterable[DeviceSnapshot]) -> tuple[Usage, ...]:
        """Every container that has clients, or had some a while ago; the devices as they are now."""
        there: dict[Labels, list[ClientSnapshot]] = {}
        for device in devices:
            for client in device.clients:
                there.setdefault(self._count(client), []).append(client)
        for labels in self._places.expire():
            del self._done[labels]
        return tuple(Usage(labels, done, tuple(there.get(labels, ()))) for labels, done in self._done.items())

    def _count(self, client: ClientSnapshot) -> Labels:
        """Counts what it did since it was counted last; the answer is where."""
        labels = self._places.admit(self._labels(client))
        before, done = self._counted.get(client.client, Done()), Done.by(client)
        self._done[labels] = self._done.get(labels, Done()).and_from(before, done)
        self._counted[client.client] = done
        return labels

    def _labels(self, client: ClientSnapshot) -> Labels:
        known = self._clients()[client.client]
        identity = known.description.identity
        if identity.source is Source.KERNEL:
            return in_pod(known.device, identity, client.container)
        return outside(known.device, client.container)
