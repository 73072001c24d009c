"""What is known of a registered client beside the core's state, and how the core's actions reach it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from nvshare.protocol import wire
from nvshare.scheduler.core.actions import ClientAction
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.owner import owner_of
from nvshare.scheduler.recovery.record import Recorded

FrameWithDescriptor = wire.Store | wire.Sum | wire.Pack | wire.Dedup
"""What is sent to a client that sleeps, about its host memory."""


class Delivery(Enum):
    """What became of a descriptor that was to be sent."""

    WENT = auto()
    """The peer's socket has it."""
    NOT_NOW = auto()
    """The kernel takes no more descriptors of this user now: nothing of the message went, and it may be sent again."""
    NEVER = auto()
    """The connection has ended."""


class ActionReceiver(Protocol):
    """What brings the core's actions to one client."""

    def deliver(self, action: ClientAction) -> None:
        """Tell the client what the core decided."""

    def send_arena(self, descriptor: int, segment_bytes: int, done: Callable[[Delivery], None]) -> None:
        """Give the client one more segment of its arena.

        ``done`` is called once it is known whether the client's socket has it; the descriptor is the caller's to close,
        or to give again, then.
        """

    def send_with(self, frame: FrameWithDescriptor, descriptor: int, done: Callable[[Delivery], None]) -> None:
        """Tell the client what to do with its host memory, and give it what it takes for that; ``done`` as above."""

    def send_gang(
        self, slot: int, slots: int, page_bytes: int, descriptor: int, done: Callable[[Delivery], None]
    ) -> None:
        """Give the client its gang's page, and say which of its places is the client's; ``done`` as above."""

    def set_scheduling(self, on: bool) -> None:
        """Scheduling is about to begin (``on``), or has ended: policy ``off``."""

    def kill(self) -> None:
        """End the client's process with SIGKILL; OSError with the reason when that is not possible."""


@dataclass(slots=True)
class RegisteredClient:
    """What is known of a registered client beside the core's state."""

    receiver: ActionReceiver
    device: str
    protocol_version: int
    backend: str
    """managed, native, swap, or empty when the protocol does not say."""
    pid: int
    """As the kernel says; 0 when it does not."""
    description: Description
    drain: str = ""
    """How its drain goes, where it does not simply end; empty: nothing was reported."""
    notices: tuple[str, ...] = ()
    """What it had to say to whoever looks at it; the newest comes last."""
    memory_wait: str = ""
    """Why it is given no memory before more is known of it; empty: it may have some."""
    account: str = ""
    """What the core calls the account that it counts on (a container, or a claim); empty: one of its own."""
    started: int = 0
    """When its process started, as ``pods.processes.start_time`` says."""
    sent_terms: bool = False
    """It knows the frames of level 3."""
    recorded_grant: int = 0
    """The grant for which it is in the record of holders; 0: it is not."""

    @property
    def owner(self) -> str:
        """See ``owner_of``; empty as long as it is not known."""
        return owner_of(self.description)

    @property
    def process(self) -> tuple[int, int]:
        """Its process: the pid, and when it began."""
        return self.pid, self.started

    def holder(self, grant: int) -> Recorded:
        """The client for the record of holders, as the holder of this grant."""
        return Recorded(self.device, grant, self.pid, self.started, self.description.command)
