"""The pages of gangs: who gets which, and what is left of them."""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nvshare.protocol import gang as layout
from nvshare.protocol.layout import ffi
from nvshare.scheduler.gang_pages import GangPages
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity
from nvshare.scheduler.registered_client import Delivery, RegisteredClient
from tests.polling import until


@dataclass(slots=True)
class Member:
    """What one client was sent."""

    delivery: Delivery | None = Delivery.WENT
    """What becomes of it; None: it is on its way until the test says so."""
    sent: list[tuple[int, int, int]] = field(default_factory=list)
    """Slot, slots and bytes."""
    pages: list[mmap.mmap] = field(default_factory=list)
    on_sent: list[Callable[[Delivery], None]] = field(default_factory=list)

    def send_gang(
        self, slot: int, slots: int, page_bytes: int, descriptor: int, done: Callable[[Delivery], None]
    ) -> None:
        """See ``ActionReceiver``."""
        self.sent.append((slot, slots, page_bytes))
        self.pages.append(mmap.mmap(descriptor, page_bytes))
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        assert seals == fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        if self.delivery is None:
            self.on_sent.append(done)
        else:
            done(self.delivery)

    def client(self) -> RegisteredClient:
        """It as the dispatcher knows it."""
        nobody = Description(0, "", Identity())
        return RegisteredClient(self, "GPU-a", 2, "swap", 1, nobody)  # type: ignore[arg-type]


def open_pages() -> int:
    """How many descriptors of pages this process has."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(entry.readlink()))
        except OSError:
            continue
    return sum("nvshare-gang" in link for link in links)


def mapped_by_us() -> int:
    """How often a page is mapped here."""
    return Path("/proc/self/maps").read_text().count("nvshare-gang")


def clients(*members: Member, first: int = 5) -> dict[int, RegisteredClient]:
    """By number."""
    return {first + place: member.client() for place, member in enumerate(members)}


async def test_all_members_share_one_page() -> None:
    """Each gets its own slot of one page, in the order of the numbers, and no descriptor stays open."""
    before = open_pages()
    a, b = Member(), Member()
    GangPages(asyncio.get_running_loop()).form(1, dict(reversed(clients(a, b).items())))
    assert (a.sent, b.sent) == ([(0, 2, layout.PAGE_BYTES)], [(1, 2, layout.PAGE_BYTES)])
    assert a.pages[0][:16] == layout.head(2)[:16]
    a.pages[0][4096] = 7
    assert b.pages[0][4096] == 7
    assert open_pages() == before + 2, "those of the two mappings of the test"


async def test_who_is_gone_is_absent_for_the_others() -> None:
    """Also for one that got the page later; a client of no gang is nobody's member."""
    a, b, c = Member(), Member(), Member()
    pages = GangPages(asyncio.get_running_loop())
    pages.form(1, clients(a, b))
    pages.form(2, clients(c, first=9))
    pages.member_gone(6)
    pages.member_gone(77)
    assert layout.absent_slots(a.pages[0]) == {1}
    assert layout.absent_slots(c.pages[0]) == set()
    pages.member_gone(5)
    assert layout.absent_slots(a.pages[0]) == {0, 1}


async def test_grants_are_counted() -> None:
    """How often each member was given the lock since it had this page; a gang without a page has nowhere to say it."""
    a, b = Member(), Member()
    pages = GangPages(asyncio.get_running_loop())
    pages.granted(1, 5)
    pages.form(1, clients(a, b))
    for number in (6, 5, 6):
        pages.granted(1, number)
    raw = ffi.from_buffer("struct nvs_gang_page *", a.pages[0])
    assert list(raw.granted)[:3] == [1, 2, 0]
    pages.form(1, clients(a, b))
    assert list(ffi.from_buffer("struct nvs_gang_page *", a.pages[-1]).granted)[:2] == [0, 0]


async def test_a_gang_that_changes_gets_a_new_page() -> None:
    """The old one stays with those that have it, as it was."""
    a, b = Member(), Member()
    pages = GangPages(asyncio.get_running_loop())
    pages.form(1, clients(a))
    pages.form(1, clients(a, b))
    assert a.sent == [(0, 1, layout.PAGE_BYTES), (0, 2, layout.PAGE_BYTES)]
    pages.member_gone(5)
    assert [layout.absent_slots(page) for page in a.pages] == [set(), {0}]


async def test_a_page_that_can_not_go_now_goes_later() -> None:
    """Unless its member is gone by then."""
    before = open_pages()
    a, b = Member(Delivery.NOT_NOW), Member(Delivery.NOT_NOW)
    pages = GangPages(asyncio.get_running_loop())
    pages.form(1, clients(a, b))
    pages.member_gone(6)
    a.delivery = Delivery.WENT
    await until(lambda: len(a.sent) == 2, "it is sent again")
    assert len(b.sent) == 1
    assert open_pages() == before + len(a.pages) + len(b.pages) + 1, "those of mappings"


@pytest.mark.parametrize("delivery", list(Delivery))
async def test_nothing_is_left_of_a_gang_that_is_none_any_more(delivery: Delivery) -> None:
    """Neither a descriptor nor a mapping, however far the page has come."""
    before, mapped = open_pages(), mapped_by_us()
    a, late = Member(delivery), Member(None)
    pages = GangPages(asyncio.get_running_loop())
    pages.form(1, clients(a, late))
    pages.forget(1)
    pages.forget(1)
    late.on_sent[0](Delivery.WENT)
    pages.member_gone(5)
    await asyncio.sleep(0.1)
    assert len(a.sent) == 1
    for page in (*a.pages, *late.pages):
        page.close()
    assert (open_pages(), mapped_by_us()) == (before, mapped)


async def test_a_page_that_could_not_be_made_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gang keeps the page that it had."""
    a = Member()
    pages = GangPages(asyncio.get_running_loop())
    pages.form(1, clients(a))

    def refuse(_file: int, _size: int) -> None:
        raise OSError("no memory")

    before = open_pages()
    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", refuse)
        with pytest.raises(OSError, match="no memory"):
            pages.form(1, clients(a))
    assert open_pages() == before
    pages.member_gone(5)
    assert layout.absent_slots(a.pages[0]) == {0}


@pytest.mark.parametrize("count", [0, layout.SLOTS + 1])
async def test_a_page_has_so_many_slots(count: int) -> None:
    """More or fewer members have no page."""
    with pytest.raises(ValueError, match="members"):
        GangPages(asyncio.get_running_loop()).form(1, clients(*(Member() for _ in range(count))))
