"""The pages that the members of gangs share: made, sent, and told who is gone. ``protocol/gang.h`` says what for."""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, assert_never

from nvshare.protocol import gang as layout
from nvshare.scheduler.registered_client import Delivery, RegisteredClient

_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_SEND_AGAIN_SECONDS: Final = 0.05
"""After so long without room for one more descriptor on its way."""


@dataclass(slots=True, eq=False)
class _Page:
    """One page. The file is open for as long as some member may still have to be sent it."""

    descriptor: int
    mapped: mmap.mmap
    slots: dict[int, int]
    """By client: its slot."""
    unsent: set[int] = field(default_factory=set)


class GangPages:
    """The pages of all gangs. Its methods are called in the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pages: dict[int, _Page] = {}

    def form(self, gang: int, members: Mapping[int, RegisteredClient]) -> None:
        """These are the gang now, by their clients' numbers, at least one and at most ``layout.SLOTS``; OSError.

        Each gets a new page, in the order of their numbers. One that goes on in a cut by the page before ends it there.
        """
        page = _new_page(sorted(members))
        self.forget(gang)
        self._pages[gang] = page
        for number, slot in page.slots.items():
            self._send(page, members[number], number, slot)

    def member_gone(self, number: int) -> None:
        """A client is gone: the other members of its gang don't wait for it any more."""
        for page in self._pages.values():
            if number in page.slots:
                layout.mark_absent(page.mapped, page.slots[number])
                self._settled(page, number)

    def granted(self, gang: int, number: int) -> None:
        """A member of the gang is about to be given the lock: nobody's work is to wait for one that stopped before."""
        page = self._pages.get(gang)
        if page is not None:
            layout.count_grant(page.mapped, page.slots[number])

    def forget(self, gang: int) -> None:
        """A gang is none any more, or has never been one. What its members have of the page is theirs."""
        page = self._pages.pop(gang, None)
        if page is not None:
            page.mapped.close()
            page.slots.clear()
            self._settled(page, *page.unsent)

    def _send(self, page: _Page, client: RegisteredClient, number: int, slot: int) -> None:
        if number in page.unsent:
            sent = partial(self._sent, page, client, number, slot)
            client.receiver.send_gang(slot, len(page.slots), layout.PAGE_BYTES, page.descriptor, sent)

    def _sent(self, page: _Page, client: RegisteredClient, number: int, slot: int, delivery: Delivery) -> None:
        match delivery:
            case Delivery.WENT | Delivery.NEVER:
                self._settled(page, number)
            case Delivery.NOT_NOW:
                self._loop.call_later(_SEND_AGAIN_SECONDS, self._send, page, client, number, slot)
            case _:
                assert_never(delivery)

    def _settled(self, page: _Page, *numbers: int) -> None:
        """These get it no more, or have it."""
        open_before = bool(page.unsent)
        page.unsent.difference_update(numbers)
        if open_before and not page.unsent:
            os.close(page.descriptor)


def _new_page(numbers: list[int]) -> _Page:
    """A page whose size nobody can change: a member that looked behind the end of its file would be killed."""
    if not 0 < len(numbers) <= layout.SLOTS:
        raise ValueError(f"a gang has 1 to {layout.SLOTS} members, not {len(numbers)}")
    descriptor = os.memfd_create("nvshare-gang", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, layout.PAGE_BYTES)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        mapped = mmap.mmap(descriptor, layout.PAGE_BYTES)
    except BaseException:
        os.close(descriptor)
        raise
    head = layout.head(len(numbers))
    mapped[: len(head)] = head
    return _Page(descriptor, mapped, {number: slot for slot, number in enumerate(numbers)}, set(numbers))
