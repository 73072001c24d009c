"""Sends frames with descriptors to clients, again and again while the kernel takes no more descriptors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import assert_never

from nvshare.scheduler.registered_client import Delivery, FrameWithDescriptor, RegisteredClient

_SEND_AGAIN_SECONDS = 0.05
"""After so long without room for one more descriptor on its way."""


class Sending:
    """To all clients."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clients: Callable[[], Mapping[int, RegisteredClient]]) -> None:
        self._loop, self._clients = loop, clients

    def send(
        self,
        client: int,
        frame: FrameWithDescriptor,
        descriptor: int,
        is_wanted: Callable[[], bool],
        done: Callable[[bool], None],
    ) -> None:
        """``done`` is told whether it went, when the descriptor is the caller's again. It does not go when it is not
        ``is_wanted`` any more, which is so when the client is gone, or its connection has ended."""
        if not is_wanted():
            done(False)
            return

        def sent(delivery: Delivery) -> None:
            match delivery:
                case Delivery.WENT | Delivery.NEVER:
                    done(delivery is Delivery.WENT)
                case Delivery.NOT_NOW:
                    again = partial(self.send, client, frame, descriptor, is_wanted, done)
                    self._loop.call_later(_SEND_AGAIN_SECONDS, again)
                case _:
                    assert_never(delivery)

        self._clients()[client].receiver.send_with(frame, descriptor, sent)
