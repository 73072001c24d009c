"""Fills segments in workers. Segments take turns piece by piece, so no client waits for the whole of another's."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from nvshare.scheduler.arenas import segment
from nvshare.scheduler.arenas.limits import MemoryLimits
from nvshare.scheduler.worker import Worker

AT_ONCE: Final = 8
"""Segments that have a descriptor while they are filled; more wait."""
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Failed:
    """A segment that could not be filled; what it had is given back."""

    reason: str
    room_bytes: int
    """What else can be had beside what all have, as far as one can say."""


@dataclass(slots=True, eq=False)
class Fill:
    """One segment on its way. Once it was handed out, or was given up, it is over."""

    size_bytes: int
    is_pack: bool
    cpus: frozenset[int]
    """Near which its pages are to be; none: anywhere."""
    done: Callable[[int | Failed], None]
    """Called in the event loop, unless it was given up: with the descriptor, which is the callee's then, or why not."""
    descriptor: int = _NONE
    filled_bytes: int = 0
    given_up: bool = False
    over: bool = field(default=False, init=False)
    in_worker: bool = field(default=False, init=False)


class Filling:
    """All segments that are being filled. Its methods are called in the event loop."""

    def __init__(self, workers: Sequence[Worker], limits: MemoryLimits) -> None:
        self._workers = workers
        self._idle = list(workers)
        self._limits = limits
        self._turns: deque[Fill] = deque()
        """Whose next piece comes first is first."""
        self._waiting: deque[Fill] = deque()
        self._open = 0
        """Segments in turn or in a worker."""
        self._taking = threading.Lock()
        self._taken_bytes = 0
        """What workers are about to take; only with ``_taking`` held."""
        self._huge = segment.must_ask_for_huge_pages()
        self._cpus = frozenset(os.sched_getaffinity(0))
        """Those that this process may use."""

    def begin(
        self,
        size_bytes: int,
        done: Callable[[int | Failed], None],
        *,
        is_pack: bool = False,
        cpus: frozenset[int] = frozenset(),
    ) -> Fill:
        """A new segment or pack is made and filled, with memory near ``cpus`` as far as there is some.

        ``done`` is called later (see ``Fill.done``).
        """
        fill = Fill(size_bytes, is_pack, cpus, done)
        self._waiting.append(fill)
        self._go_on()
        return fill

    def give_up(self, fill: Fill) -> bool:
        """Nobody needs it any more: what it has is given back now, or as soon as its worker has done its piece.

        False: it was over already.
        """
        if fill.over:
            return False
        fill.given_up = fill.over = True
        if fill.in_worker:
            return True
        if fill in self._turns:
            self._turns.remove(fill)
            self._open -= 1
        elif fill in self._waiting:
            self._waiting.remove(fill)
        self._close(fill)
        self._go_on()
        return True

    def discard(self, descriptor: int) -> None:
        """Closes a segment that was handed out and that nobody else has: freeing 1 GiB takes some 100 ms."""
        self._workers[0].close(descriptor)

    def _close(self, fill: Fill) -> None:
        """Gives back what it had."""
        descriptor, fill.descriptor = fill.descriptor, _NONE
        if descriptor != _NONE:
            self.discard(descriptor)

    def _go_on(self) -> None:
        while self._waiting and self._open < AT_ONCE:
            self._turns.append(self._waiting.popleft())
            self._open += 1
        while self._idle and self._turns:
            self._give(self._idle.pop(), self._turns.popleft())

    def _give(self, worker: Worker, fill: Fill) -> None:
        fill.in_worker = True

        def done(failed: Failed | None) -> None:
            self._idle.append(worker)
            fill.in_worker = False
            self._piece_done(fill, failed)
            self._go_on()

        worker.submit(lambda: self._fill_piece(fill), done)

    def _piece_done(self, fill: Fill, failed: Failed | None) -> None:
        ready = fill.filled_bytes == fill.size_bytes
        if failed is None and not ready and not fill.given_up:
            self._turns.append(fill)
            return
        self._open -= 1
        fill.over = True
        if fill.given_up:
            self._close(fill)
        elif failed is not None:
            self._close(fill)
            fill.done(failed)
        else:
            descriptor, fill.descriptor = fill.descriptor, _NONE
            fill.done(descriptor)

    def _fill_piece(self, fill: Fill) -> Failed | None:
        """In a worker. The limits are looked at before: beyond them the kernel would end this process."""
        size_bytes = min(segment.PIECE_BYTES, fill.size_bytes - fill.filled_bytes)
        with self._taking:
            room_bytes = self._limits.room_bytes() - self._taken_bytes
            if room_bytes < size_bytes:
                return Failed("no more can be had", max(0, room_bytes))
            self._taken_bytes += size_bytes
        try:
            if fill.descriptor == _NONE:
                fill.descriptor = segment.make(fill.size_bytes, is_pack=fill.is_pack)
            self._run_near(fill.cpus)
            segment.fill(fill.descriptor, fill.filled_bytes, size_bytes, huge=self._huge)
        except OSError as error:
            return Failed(error.strerror or str(error), 0)
        finally:
            with self._taking:
                self._taken_bytes -= size_bytes
        fill.filled_bytes += size_bytes
        return None

    def _run_near(self, cpus: frozenset[int]) -> None:
        """In a worker. A page comes from the memory that is nearest to the CPU on which it is first written.

        Sources: kernel's documentation, "NUMA Memory Policy", default policy; sched_setaffinity(2), of one thread.
        """
        with suppress(OSError):  # This process may not use any of them any more.
            os.sched_setaffinity(0, cpus & self._cpus or self._cpus)
