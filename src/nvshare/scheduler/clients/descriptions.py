"""Finds out who the clients are, one process after another.

A look at /proc and at kubelet's folders takes up to a millisecond of a thread, and keeps the event loop from the
interpreter meanwhile. So one look serves all clients of a process that wait. No look is made for a client that has
left. Between two looks there is a pause. Its length goes by the thread's processor time, not by how long the look
lasted: on a busy machine that is many times as long, and annotations don't count before their process was looked at.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from nvshare.scheduler.pods.description import Describe, Description, Hints
from nvshare.scheduler.pods.peer import Peer
from nvshare.scheduler.worker import Worker

_PAUSE_PER_COST = 4.0
"""The pause is so many times as long as the look: very many clients at once take a fifth of the time at most."""

Described = Callable[[Description], None]


class Descriptions:
    """The clients that wait to be described."""

    def __init__(self, loop: asyncio.AbstractEventLoop, worker: Worker, describe: Describe) -> None:
        self._loop = loop
        self._worker = worker
        self._describe = describe
        self._waiting: dict[int, dict[int, tuple[Peer, Hints, Described]]] = {}
        """By pid and by the client's number."""
        self._busy = False

    def ask(self, number: int, peer: Peer, hints: Hints, described: Described) -> None:
        """A client is here: ``described`` is called later, unless the client leaves before."""
        self._waiting.setdefault(peer.pid, {})[number] = peer, hints, described
        self._look()

    def forget(self, number: int, pid: int) -> None:
        """A client has left."""
        clients = self._waiting.get(pid, {})
        clients.pop(number, None)
        if not clients:
            self._waiting.pop(pid, None)

    def _look(self) -> None:
        if self._busy or not self._waiting:
            return
        self._busy = True
        pid, clients = next(iter(self._waiting.items()))
        if pid:
            del self._waiting[pid]
        else:
            # Processes that can't be told apart are different ones.
            number, only = next(iter(clients.items()))
            self.forget(number, pid)
            clients = {number: only}
        peer, hints, _described = next(iter(clients.values()))

        def look() -> tuple[Description, float]:
            began = time.thread_time()
            return self._describe(peer, hints), time.thread_time() - began

        def done(found: tuple[Description, float]) -> None:
            description, cost = found
            self._loop.call_later(cost * _PAUSE_PER_COST, self._go_on)
            for _peer, _hints, described in clients.values():
                described(description)

        self._worker.submit(look, done)

    def _go_on(self) -> None:
        self._busy = False
        self._look()
