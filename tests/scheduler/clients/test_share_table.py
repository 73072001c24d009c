"""Who is asked for memory that one client gives and another one maps."""

from __future__ import annotations

import pytest

from nvshare.protocol import wire
from nvshare.scheduler.clients.share_table import (
    ANSWER_SECONDS,
    MOST_ASKED,
    MOST_KEYS,
    MOST_OPEN,
    UNKNOWN_SECONDS,
    YOUNG_SECONDS,
    ShareError,
    ShareTable,
    Tell,
)

KEY, OTHER = bytes([1] * 32), bytes([2] * 32)
LATER = 100.0
"""A time when the scheduler is not young any more."""
GIVER, TAKER, THIRD = 1, 2, 3


def table(*, may_have: bool = True, devices: str = "AAA") -> ShareTable:
    """Three clients, of whom the first one gives KEY."""
    made = ShareTable(lambda _opener, _owner: may_have, 0.0)
    for client, device in zip((GIVER, TAKER, THIRD), devices, strict=True):
        made.came(client, device)
    assert made.shares(GIVER, KEY, LATER) == []
    return made


def refused(tells: list[Tell]) -> list[tuple[int, int]]:
    """Whose requests are refused."""
    return [(tell.client, tell.frame.request) for tell in tells if isinstance(tell.frame, wire.NotShared)]


def test_it_is_asked_and_answers() -> None:
    """The request goes to who gives it, with a number of its own, and the answer to who asked."""
    made = table()
    assert made.opens(TAKER, wire.OpenShared(7, KEY, 2), LATER) == [Tell(GIVER, wire.AskShared(1, KEY, 2))]
    assert made.expected(GIVER) == 1
    assert made.answers(GIVER, wire.Shared(1, 2, 3, 4096, 512)) == [Tell(TAKER, wire.Shared(7, 2, 3, 4096, 512))]
    assert made.expected(GIVER) == 0
    assert made.deadline() is None
    made.opens(TAKER, wire.OpenShared(8, KEY, 0), LATER)
    assert made.answers(GIVER, wire.NotShared(2, "why")) == [Tell(TAKER, wire.NotShared(8, "why"))]


def test_only_who_may() -> None:
    """Another container's memory, or another device's, is refused at once, and its owner hears nothing."""
    assert refused(table(may_have=False).opens(TAKER, wire.OpenShared(7, KEY, 0), LATER)) == [(TAKER, 7)]
    assert refused(table(devices="ABA").opens(TAKER, wire.OpenShared(7, KEY, 0), LATER)) == [(TAKER, 7)]
    assert refused(table().opens(GIVER, wire.OpenShared(7, KEY, 0), LATER)) == [(GIVER, 7)]


@pytest.mark.parametrize(("at", "until"), [(0.5, YOUNG_SECONDS), (LATER, LATER + UNKNOWN_SECONDS)])
def test_an_unknown_key_is_waited_for(at: float, until: float) -> None:
    """Its owner may come a moment later, in a young scheduler also some seconds."""
    made = table()
    assert made.opens(TAKER, wire.OpenShared(7, OTHER, 0), at) == []
    assert made.deadline() == until
    assert made.handle_timer(until - 0.01) == []
    assert made.shares(GIVER, OTHER, until - 0.01) == [Tell(GIVER, wire.AskShared(1, OTHER, 0))]
    made.opens(THIRD, wire.OpenShared(1, bytes(32), 0), at)
    assert refused(made.handle_timer(until)) == [(THIRD, 1)]
    made.unshares(GIVER, OTHER)
    assert made.opens(THIRD, wire.OpenShared(2, OTHER, 0), LATER) == []


def test_no_answer_in_time() -> None:
    """Who asked is told, and what comes later is thrown away; until it comes the owner owes it."""
    made = table()
    made.opens(TAKER, wire.OpenShared(7, KEY, 0), LATER)
    assert made.deadline() == LATER + ANSWER_SECONDS
    assert refused(made.handle_timer(LATER + ANSWER_SECONDS)) == [(TAKER, 7)]
    assert made.handle_timer(LATER + 2 * ANSWER_SECONDS) == []
    assert made.expected(GIVER) == 1
    assert made.answers(GIVER, wire.Shared(1, 0, 1, 4096)) == []
    assert made.expected(GIVER) == 0


def test_who_is_gone() -> None:
    """Of an owner that ends all requests are refused; of who asked none is left, and the owner owes its answer."""
    made = table()
    made.opens(TAKER, wire.OpenShared(7, KEY, 0), LATER)
    made.opens(THIRD, wire.OpenShared(8, KEY, 0), LATER)
    assert made.gone(TAKER) == []
    assert made.answers(GIVER, wire.Shared(1, 0, 1, 4096)) == []
    assert refused(made.gone(GIVER)) == [(THIRD, 8)]
    assert made.deadline() is None
    assert made.opens(THIRD, wire.OpenShared(9, KEY, 0), LATER) == []


def test_few_at_a_time() -> None:
    """An owner is asked for some at a time, the others wait; who asks for more than is allowed is refused."""
    made = ShareTable(lambda _opener, _owner: True, 0.0)
    for client in range(1, 5):
        made.came(client, "A")
    made.shares(1, KEY, LATER)
    tells = [
        tell
        for client in (2, 3)
        for request in range(MOST_OPEN)
        for tell in made.opens(client, wire.OpenShared(request, KEY, 0), LATER)
    ]
    assert len(tells) == MOST_ASKED == made.expected(1)
    assert refused(made.opens(2, wire.OpenShared(99, KEY, 0), LATER)) == [(2, 99)]
    answered = made.answers(1, wire.Shared(1, 0, 1, 4096))
    assert [tell.client for tell in answered] == [2, 1]
    assert made.expected(1) == MOST_ASKED


def test_what_no_client_says() -> None:
    """An answer that nobody asked for, a request twice, keys without end."""
    made = table()
    with pytest.raises(ShareError, match="request 1, which it does not have"):
        made.answers(GIVER, wire.Shared(1, 0, 1, 4096))
    made.opens(TAKER, wire.OpenShared(7, KEY, 0), LATER)
    with pytest.raises(ShareError, match="request 7 already"):
        made.opens(TAKER, wire.OpenShared(7, KEY, 0), LATER)
    for number in range(MOST_KEYS):
        made.shares(THIRD, number.to_bytes(32, "big"), LATER)
    with pytest.raises(ShareError, match="more than"):
        made.shares(THIRD, bytes([255] * 32), LATER)
