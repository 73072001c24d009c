"""The ledger of one device: how much memory there is, whose it is, and how much is left beside whom.

A client's memory has two parts. The *fixed* part is on the device whether the client holds the lock, waits or idles:
what the driver pins for it (context, modules) and, with the native backend, its whole footprint. The *movable* part
has to be on the device only while the client holds: the footprint with the managed backend, whose pages give way.

Where clients swap, a reserve stays free for what the driver takes unasked, and what a client that is gone had counts
until it is known to be free. A client that swaps has a movable part as one with the managed backend has, and a fixed
part of what can't be swapped. Beside the lock's question there is another one: the *room* is what is left beside all
memory that clients which swap may have resident, whether they hold or not.

So clients can hold together when the fixed memory of all clients, idle ones too, and the movable memory of those that
hold are together not more than what other processes leave free. Nothing is counted twice, and nothing that an idle
client keeps is promised to somebody else.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from nvshare.scheduler.core.events import Backend
from nvshare.scheduler.core.records.memory import Memory

OUTGROWN_BYTES: Final = 256 << 20
"""How far holders may outgrow the device before one of them is asked to leave, or OUTGROWN_SHARE of it if that is more.

Memory of others comes and goes in steps of this size (a CUDA context of a small program takes 200 to 300 MiB), and NVML
and footprints are never of the same moment. Paging as much costs less than a hand-over back and forth. Grants have no
slack.
"""
OUTGROWN_SHARE: Final = 0.01

RESERVE_BYTES: Final = 512 << 20
"""What stays free where memory swaps, or RESERVE_SHARE of the device if that is more; no more than RESERVE_MOST of it.

Modules load at a launch and local memory grows, all inside the driver: there that is an error in a program that did
nothing wrong.
"""
RESERVE_SHARE: Final = 0.02
RESERVE_MOST: Final = 0.125
WAKING_BYTES: Final = 64 << 20
"""What of the reserve stays free when a process wakes: the driver loses one for which it lacks memory."""
ASSUMED_SHARE: Final = 1 / 16
"""The most that a context is taken to take of a device where memory swaps."""
HEADROOM_BYTES: Final = 1536 << 20
"""What all clients' contexts and unmovable memory may take before they take from what can be admitted: two contexts of
PyTorch. HEADROOM_SHARE of the device if that is less."""
HEADROOM_SHARE: Final = 0.1


def reserve_of(total_bytes: int, chosen_bytes: int | None) -> int:
    """What stays free on a device of this size where memory swaps; ``chosen_bytes``: None stands for a share of it."""
    if chosen_bytes is not None:
        return chosen_bytes
    return min(int(total_bytes * RESERVE_MOST), max(RESERVE_BYTES, int(total_bytes * RESERVE_SHARE)))


def usual_context_bytes(total_bytes: int, assumed_bytes: int) -> int:
    """What a context is taken to take, before any was measured, on a device of this size where memory swaps."""
    return min(assumed_bytes, int(total_bytes * ASSUMED_SHARE)) if total_bytes else assumed_bytes


class Ledger:
    """The memory of one device and the sums of its clients' memory.

    No operation takes longer with more clients; who comes or goes takes as long as there are different claims.
    """

    def __init__(self, reserve_bytes: int | None = None) -> None:
        """``reserve_bytes`` of None stands for a share of the device."""
        self.total_bytes = 0
        """The device's memory as measured, else the least that a present client claims; 0: nobody knows.

        A client that claims too little only makes others take turns, and only while it is there.
        """
        self.foreign_bytes = 0
        self.left_bytes = 0
        """What is left beside the fixed memory of all clients; negative: so much is lacking."""
        self.assumed_bytes = 0
        """How much of the fixed memory is only assumed."""
        self.alone_bytes = 0
        """What a client may have that is alone: the reserve as well."""
        self.slack_bytes = 0
        """How much may be lacking before somebody is asked to leave for it; none where the total is not known."""
        self.reserve_bytes = 0
        """What stays free; 0 where no client swaps."""
        self.shortage_bytes = 0
        """What the driver lacked though it seemed to be there, since the last measurement. The room is less by that."""
        self.departed_bytes = 0
        """What clients that are gone had, where it is not known to be free."""
        self.measurements = 0
        """How often the device was measured, and what others have there was settled."""
        self._least_context_bytes = 0
        """The least that was measured of a context here, where memory swaps; 0: none was."""
        self._chosen_reserve_bytes = reserve_bytes
        self._swapping = 0
        """How many clients swap."""
        self._unknown = 0
        """How many do not report their footprint."""
        self._paging_bytes = 0
        """The movable memory of those that do not swap."""
        self._fixed_bytes = 0
        self._headroom_bytes = 0
        self._measured_total_bytes = 0
        self._claims: Counter[int] = Counter()
        self._smallest_claim = 0

    @property
    def total_measured(self) -> bool:
        """False: nothing but clients' claims is known of the device's memory."""
        return self._measured_total_bytes > 0

    def measure_device(self, total_bytes: int, foreign_bytes: int, *, settled: bool = True) -> None:
        """The device was measured; what is known then is that of ``DeviceSeen``."""
        self._measured_total_bytes = total_bytes
        self.foreign_bytes = foreign_bytes
        self.shortage_bytes = 0
        self.measurements += settled
        self._add_up()

    @property
    def paging_bytes(self) -> int:
        """What clients need that do not swap, idle ones too, to be wholly on the device together."""
        return self._paging_bytes + self._unknown * self.total_bytes

    def headroom_bytes(self, more_pinned_bytes: int = 0) -> int:
        """What has to stay for contexts that may still come, when so much more is pinned."""
        return max(0, self.most_headroom_bytes - self._headroom_bytes - more_pinned_bytes)

    @property
    def most_headroom_bytes(self) -> int:
        """What has to stay for contexts where there is none yet."""
        return min(HEADROOM_BYTES, int(self.total_bytes * HEADROOM_SHARE))

    @property
    def waking_bytes(self) -> int:
        """What of the reserve a context may have that comes back."""
        return max(0, self.reserve_bytes - WAKING_BYTES)

    @property
    def all_bytes(self) -> int:
        """What all clients together may have on the device."""
        return self.total_bytes - self.foreign_bytes - self.reserve_bytes

    def assumed_pinned_bytes(self, memory: Memory, assumed_bytes: int) -> int:
        """What a context and modules are taken to take before they are measured; ``assumed_bytes`` on a large device.

        Where memory swaps too large an assumption refuses memory for good, and a device with little memory has few
        multiprocessors and small contexts. What is too little the client tells as lacking. Where nothing better is
        known of the device's total the client's claim counts. No context is taken for smaller than all that were here.
        """
        total = self.total_bytes or memory.claimed_total_bytes
        if memory.backend is not Backend.SWAP or not total:
            return assumed_bytes
        return max(usual_context_bytes(total, assumed_bytes), self._least_context_bytes)

    def lack(self, lacking_bytes: int) -> None:
        """The driver lacks so much more than what is left; negative: less."""
        self.shortage_bytes += max(0, lacking_bytes)

    def depart(self, departed_bytes: int) -> None:
        """A client that is gone had so much that is not known to be free; negative: now it is."""
        self.departed_bytes += departed_bytes
        self._add_up()

    def open(self, memory: Memory) -> None:
        """A client came."""
        self._open(memory, 1)

    def close(self, memory: Memory) -> None:
        """A client is gone, and what it had is free."""
        self._open(memory, -1)

    def _open(self, memory: Memory, sign: int) -> None:
        claim = memory.claimed_total_bytes
        self._claims[claim] += sign
        if not self._claims[claim]:
            del self._claims[claim]
        self._smallest_claim = min(filter(None, self._claims), default=0)
        self._swapping += sign * (memory.backend is Backend.SWAP)
        self._count(memory, sign)
        self._add_up()

    def recount(self, memory: Memory) -> None:
        """What is known of a client's memory changed."""
        self._count(memory, -1)
        memory.count()
        self._count(memory, 1)
        self._add_up()

    def pin(self, memory: Memory, pinned_bytes: int, *, measured: bool) -> None:
        """What a client pins was measured, or a better assumption was found."""
        memory.pin(pinned_bytes, measured=measured)
        if measured and pinned_bytes and memory.backend is Backend.SWAP:
            self._least_context_bytes = min(self._least_context_bytes or pinned_bytes, pinned_bytes)
        self.recount(memory)

    def _count(self, memory: Memory, sign: int) -> None:
        self._fixed_bytes += sign * memory.fixed_bytes
        self._headroom_bytes += sign * memory.headroom_bytes
        self.assumed_bytes += sign * memory.assumed_bytes
        if memory.backend is not Backend.SWAP:
            self._unknown += sign * (not memory.is_known)
            self._paging_bytes += sign * memory.movable_bytes

    def _add_up(self) -> None:
        self.total_bytes = total = self._measured_total_bytes or self._smallest_claim
        self.reserve_bytes = reserve_of(total, self._chosen_reserve_bytes) if self._swapping else 0
        self.left_bytes = self.all_bytes - self._fixed_bytes - self.departed_bytes
        self.alone_bytes = self.left_bytes + self.reserve_bytes
        slack = max(OUTGROWN_BYTES, int(total * OUTGROWN_SHARE)) if total else 0
        # Where memory swaps there is no paging to make up for it: only the reserve.
        self.slack_bytes = self.reserve_bytes if self._swapping else slack
