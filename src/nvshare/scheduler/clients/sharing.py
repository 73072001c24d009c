"""Brings what clients say about memory that they give and map to the table of requests, and the answers to them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from nvshare.protocol import wire
from nvshare.scheduler.clients.connection import Connection
from nvshare.scheduler.clients.faults import PeerError
from nvshare.scheduler.clients.outbox import Parcel
from nvshare.scheduler.clients.share_table import ShareError, ShareTable, Tell
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.pods.belonging import belonging_of
from nvshare.scheduler.pods.processes import start_time
from nvshare.scheduler.registered_client import Delivery

MOST_DESCRIPTORS = 32
"""On their way to clients that do not read; for more there are no descriptors here."""

_FULL = "too many descriptors are on their way"

Frame = wire.Share | wire.Unshare | wire.OpenShared | wire.Shared | wire.NotShared


@dataclass(slots=True)
class _End:
    """What is known of a client here."""

    connection: Connection
    belonging: str
    """See ``belonging_of``."""


class Sharing:
    """All clients that give memory to others or map others'."""

    def __init__(self, loop: asyncio.AbstractEventLoop, dispatcher: Dispatcher) -> None:
        self._loop = loop
        self._dispatcher = dispatcher
        self._table = ShareTable(self._may_have, loop.time())
        self._ends: dict[int, _End] = {}
        self._on_way = 0
        """Descriptors that are open here."""
        self._timer: asyncio.TimerHandle | None = None

    def heard(self, number: int, connection: Connection, frame: Frame) -> None:
        """A registered client sent such a frame; PeerError if it may not."""
        if number not in self._ends:
            self._come(number, connection)
        try:
            match frame:
                case wire.Share(key):
                    self._tell(self._table.shares(number, key, self._loop.time()))
                case wire.Unshare(key):
                    self._table.unshares(number, key)
                case wire.OpenShared():
                    self._tell(self._table.opens(number, frame, self._loop.time()))
                case wire.NotShared():
                    self._tell(self._table.answers(number, frame))
                case wire.Shared():
                    self._hand_on(number, frame, connection.take_descriptor())
                case _:
                    assert_never(frame)
        except ShareError as error:
            raise PeerError(str(error)) from error
        connection.expects = self._table.expected(number)
        self._arm()

    def left(self, number: int) -> None:
        """The connection of a client ended."""
        if self._ends.pop(number, None) is not None:
            self._tell(self._table.gone(number))
            self._arm()

    def stop(self) -> None:
        """Answers nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _come(self, number: int, connection: Connection) -> None:
        client = self._dispatcher.clients[number]
        peer = connection.peer
        belonging = belonging_of(peer)
        # Its pid may be somebody else's by now.
        if start_time(peer.pid) != client.started:
            belonging = ""
        self._ends[number] = _End(connection, belonging)
        self._table.came(number, client.device)

    def _may_have(self, opener: int, owner: int) -> bool:
        belonging = self._ends[opener].belonging
        return belonging != "" and belonging == self._ends[owner].belonging

    def _hand_on(self, number: int, frame: wire.Shared, descriptor: int) -> None:
        try:
            tells = self._table.answers(number, frame)
        except ShareError:
            os.close(descriptor)
            raise
        given = next((tell for tell in tells if isinstance(tell.frame, wire.Shared)), None)
        if given is None:
            os.close(descriptor)
        self._tell([tell for tell in tells if tell is not given])
        if given is not None:
            self._give(given.client, given.frame, descriptor)

    def _give(self, number: int, frame: wire.AskShared | wire.Shared | wire.NotShared, descriptor: int) -> None:
        def done(delivery: Delivery) -> None:
            os.close(descriptor)
            self._on_way -= 1
            if delivery is Delivery.NOT_NOW:
                # From within the sending: what is said next goes behind it.
                self._loop.call_soon(self._tell, [Tell(number, wire.NotShared(frame.request, _FULL))])

        self._on_way += 1
        if self._on_way > MOST_DESCRIPTORS:
            done(Delivery.NOT_NOW)
        else:
            self._ends[number].connection.send(wire.encode(frame), Parcel(descriptor, done))

    def _tell(self, tells: Sequence[Tell]) -> None:
        for tell in tells:
            end = self._ends.get(tell.client)
            if end is not None:
                end.connection.expects = self._table.expected(tell.client)
                end.connection.send(wire.encode(tell.frame))

    def _arm(self) -> None:
        deadline = self._table.deadline()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if deadline is None else self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._tell(self._table.handle_timer(self._loop.time()))
        self._arm()
