"""Finds clients on GPUs that kubelet did not give to their containers, and remembers them.

Kubelet gives a container its devices before it starts, and gives it no others later. So an answer of kubelet that names
a container counts for good, if it was asked for after a client of the container was known. An older answer may tell of
a former pod with the same name. A client that can't be judged yet is judged again with every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from nvshare.scheduler.clients.faults import Fault, PeerError
from nvshare.scheduler.pods.allocations import Listed, given_devices
from nvshare.scheduler.pods.cgroups import Place
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Source
from nvshare.scheduler.recovery.awaited import Process

_REMEMBERED: Final = 4096
"""Containers, and processes: more than a node has."""

Key = TypeVar("Key")
Value = TypeVar("Value")

Found = Callable[[frozenset[str]], None]
"""Is told what the client's container was given, when that is not the device that the client uses."""


@dataclass(frozen=True, slots=True)
class _Client:
    process: Process
    place: Place
    description: Description
    found: Found


class Strangers:
    """Those of one scheduler. Kubelet's answers come from whoever asks it."""

    def __init__(self) -> None:
        self.ask_soon: Callable[[], None] | None = None
        """Has kubelet asked soon; set before the first client comes."""
        self._shared: frozenset[str] = frozenset()
        """The devices that containers hold."""
        self._new: dict[int, _Client] = {}
        """By number; kubelet was not asked since it is known who they are."""
        self._asked: dict[int, _Client] = {}
        """Kubelet was asked, and its word on them has not come."""
        self._given: dict[Place, frozenset[str]] = {}
        """What containers were given."""
        self._refused: dict[Process, None] = {}

    def check(self, process: Process) -> None:
        """PeerError for a process that was found on a device that its container was not given."""
        if process in self._refused:
            raise PeerError(f"kubelet gave this container other GPUs than {process.device}", Fault.NOT_GIVEN)

    def is_shared(self, device: str) -> bool:
        """Whether kubelet gave a device to containers: then others' claims to hold it stop nobody."""
        return device in self._shared

    def described(self, number: int, process: Process, description: Description, found: Found) -> None:
        """It is known who a client is; ``found`` is called now, or with one of kubelet's answers, or never."""
        place = description.place
        if place is None or description.identity.source is not Source.KERNEL:
            return
        client = _Client(process, place, description, found)
        if (given := self._given.get(place)) is not None:
            self._judge(client, given)
            return
        self._new[number] = client
        if self.ask_soon is not None:
            self.ask_soon()

    def left(self, number: int) -> None:
        """A client is gone."""
        self._new.pop(number, None)
        self._asked.pop(number, None)

    def asking(self) -> None:
        """Kubelet is about to be asked."""
        self._asked |= self._new
        self._new.clear()

    def answered(self, containers: Sequence[Listed]) -> None:
        """Kubelet's answer to that."""
        self._shared = frozenset(held.device for each in containers for held in each.holdings)
        of_pods: dict[tuple[str, str], list[Listed]] = {}
        for each in containers:
            of_pods.setdefault((each.namespace, each.pod), []).append(each)
        for number, client in list(self._asked.items()):
            identity = client.description.identity
            given = given_devices(of_pods.get((identity.namespace, identity.pod), ()), identity)
            if given is not None:
                del self._asked[number]
                _remember(self._given, client.place, given)
                self._judge(client, given)

    def _judge(self, client: _Client, given: frozenset[str]) -> None:
        if client.process.device not in given:
            _remember(self._refused, client.process, None)
            client.found(given)


def _remember(known: dict[Key, Value], key: Key, value: Value) -> None:
    known[key] = value
    if len(known) > _REMEMBERED:
        del known[next(iter(known))]
