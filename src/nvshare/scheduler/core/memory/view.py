"""The two views that the rules of admission (admission.py) are asked with: how what is not certain turns out.

- What a client was promised and has not used: at best taken back where it is too much, at worst used. Who does not
  answer uses it in both.
- What one has that is coming back: at best what it registered with, at worst not known, so it is waited for.
- What a context takes that was made lately: at best nothing, at worst as much as is assumed.
- What the contexts of those take that can sleep: at best nothing, at worst they stay awake.
- What those have that are gone: at best it is free, at worst they come back with it.
- Host memory that is not made yet: at best all that the budget allows, at worst none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nvshare.scheduler.core.memory.estates import Estate
from nvshare.scheduler.core.records.client import Client


@dataclass(frozen=True, slots=True)
class View:
    """How what is not certain is taken to turn out."""

    best: bool
    """False: at worst."""
    stuck: frozenset[int]
    """Who does not say what it goes by: it keeps what it was promised."""
    assumed_bytes: int = 0
    """How much less contexts take than they are charged with."""
    free_bytes: int = 0
    """Of what is charged, that and what the gone had."""
    host_bytes: int = 0
    """How much more host memory there is."""
    gone: tuple[Estate, ...] = ()
    """Who is gone and comes back."""
    asleep: frozenset[int] = frozenset()
    """Who is taken to sleep though it does not yet; what their contexts take is free."""
    staying: frozenset[int] = frozenset()
    """Who is taken to keep what it has on the device."""

    def sleeps(self, client: Client) -> bool:
        """Whether a client is taken to sleep."""
        return client.memory.asleep or client.number in self.asleep

    def context_bytes(self, client: Client) -> int:
        """What the context of one that sleeps takes when it wakes, beside what is counted of it."""
        memory = client.memory
        return 0 if memory.asleep and memory.has_context else memory.pinned_bytes

    def keeps(self, client: Client) -> bool:
        """Whether a client is taken to use all that it may still go by."""
        return not self.best or client.number in self.stuck

    def is_unknown(self, client: Client) -> bool:
        """Whether it is back and has not said what it has; who never does is not waited for."""
        return not self.best and not client.memory.reported and client.number not in self.stuck

    def staying_bytes(self, clients: Iterable[Client]) -> int:
        """What nobody else has of the device because of those."""
        return sum(client.memory.charge_bytes for client in clients if client.number in self.staying)

    def movable_bytes(self, client: Client, left_bytes: int) -> int:
        """What a client has that can move, where so much is left for it: what is beyond that is taken back."""
        memory = client.memory
        if client.number in self.staying:
            return 0
        if self.keeps(client):
            return memory.pledged_bytes
        return min(memory.admitted_bytes, max(memory.footprint_bytes, left_bytes))

    def arena_bytes(self, client: Client) -> int:
        """The host memory that a client has; at best with what is being made for it."""
        return client.memory.host_bytes if self.best else client.memory.arena_bytes
