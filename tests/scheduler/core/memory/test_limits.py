"""Memory limits of containers, rule by rule. The device has 15 GiB beside the reserve, and nothing else is short."""

from __future__ import annotations

import pytest

from nvshare.scheduler.core.actions import Allot, RefuseGrowth
from nvshare.scheduler.core.events import (
    Backend,
    ClaimedState,
    ClientGone,
    ClientRegistered,
    ContainerFound,
    FootprintChanged,
    GrowthRequested,
    MemoryFreed,
    ResidencyReported,
    TermsSet,
)
from nvshare.scheduler.core.terms import Terms
from tests.scheduler.core.memory.swap_transcript import DEVICE, GIB, Table


def limited(size: float) -> Terms:
    """The terms of a container with a limit of so many GiB."""
    return Terms(memory_limit_bytes=int(size * GIB))


def enters(table: Table, name: str, container: str = "c", size: float = 4) -> list[str]:
    """A client is found to be in a container that is limited to so many GiB."""
    return table.feed(ContainerFound(ord(name), container, limited(size)))


def is_granted(said: list[str], name: str, request: int) -> bool:
    """Whether this growth was; how much of it may be on the device does not matter here."""
    return any(line.startswith(f"allot {name} ") and line.endswith(f" as {request}") for line in said)


def two(size_a: float = 1, size_b: float = 1, limit: float = 4) -> Table:
    """A and B are in one container; who is asked what it has answers when a test says so."""
    table = Table()
    table.answers = False
    for name, size in (("A", size_a), ("B", size_b)):
        table.comes(name, size)
        enters(table, name, size=limit)
    return table


def test_what_fits_is_admitted_without_slack() -> None:
    """A asks for some of what is left, then for all: it gets that, and nothing on top that it could take unasked."""
    table = two()
    for request, size in ((1, 2 * GIB), (2, 3 * GIB)):
        [action] = table.core.handle(GrowthRequested(ord("A"), request, size, 0), 0.0)
        assert isinstance(action, Allot)
        assert action.admitted_bytes == size


def test_the_sum_counts() -> None:
    """B's GiB is a part of the 4 that both may have: 3.5 more for A are refused."""
    table = two(0, 1)
    assert table.feed(GrowthRequested(ord("A"), 1, int(3.5 * GIB), 0)) == ["evict B 1"]
    report = ResidencyReported(ord("B"), table.orders["B"], GIB, GIB, admitted_bytes=GIB)
    [refusal] = table.core.handle(report, 0.0)
    assert isinstance(refusal, RefuseGrowth)
    assert refusal.reason == "the container's limit is 4096 MiB, of which its other processes have 1024 MiB"
    assert is_granted(table.feed(GrowthRequested(ord("A"), 2, 3 * GIB, 0)), "A", 2)


def test_unmovable_memory_counts() -> None:
    """Arrays and pools are no less memory than what moves."""
    table = two(1, 1)
    assert is_granted(table.grows("A", 1, fixed=2), "A", 1)
    table.has("A", 1, 1, fixed=2)
    assert table.grows("B", 1.5) == ["evict A 1"]
    assert "refuse B 1" in table.has("A", 1, 1, fixed=2)
    table.has("A", 1, 1, fixed=0)
    assert is_granted(table.grows("B", 1.5), "B", 2)


def test_others_are_not_limited() -> None:
    """C is in no container and D in another one: what A and B may have is nothing to them."""
    table = two(2, 2)
    for name in "CD":
        table.comes(name, 1)
    enters(table, "D", "other", 8)
    assert is_granted(table.grows("C", 6), "C", 1)
    assert is_granted(table.grows("D", 6), "D", 1)


def test_a_grant_that_is_not_used_yet_counts() -> None:
    """A was granted 3 GiB and has not said that it has them: B waits, and is refused once A has, and says so again."""
    table = two(1, 1)
    table.grows("A", 3)
    assert table.grows("B", 1.5) == []
    assert "evict A 3" in table.has("A", 3, 1)
    assert "refuse B 1" in table.has("A", 3, 1)


def test_slack_is_taken_back_for_another_one() -> None:
    """A was admitted 3 GiB and freed 2 of them: B waits until A has read that it lost them, and then is admitted."""
    table = two(1, 1)
    table.grows("A", 3)
    table.has("A", 3, 1)
    table.has("A", 1, 1, slack=2)
    order = table.orders["A"]
    assert table.grows("B", 2.5) == ["allot A 1"]
    assert table.orders["A"] == order + 1
    assert table.has("A", 1, 1, order=order, slack=2) == []
    assert is_granted(table.has("A", 1, 1), "B", 1)


def test_slack_of_its_own_is_taken_back() -> None:
    """A freed what moves and wants arrays: until it knows that it lost the one, it does not get the other."""
    table = two(0, 0)
    table.grows("A", 3)
    table.has("A", 3, 0)
    table.has("A", 0, 0, slack=3)
    assert table.grows("A", 0, fixed=3) == ["allot A 0"]
    assert is_granted(table.has("A", 0, 0), "A", 2)


def test_who_does_not_answer_keeps_its_slack() -> None:
    """A does not read that it lost its slack: after the grace time B is refused rather than left waiting for ever."""
    table = two(1, 1)
    table.grows("A", 3)
    table.has("A", 3, 1)
    table.has("A", 1, 1, slack=2)
    table.grows("B", 2.5)
    assert "refuse B 1" in table.timer()


def test_a_context_does_not_count() -> None:
    """A container that has more than it may have now makes contexts all the same."""
    table = Table(pinned=1)
    table.comes("A", 4)
    enters(table, "A")
    table.comes("B")
    enters(table, "B", size=2)
    assert table.grows("B", 0) == ["allot B 0 as 1"]


def test_a_lower_limit_takes_nothing_away() -> None:
    """A has 3 GiB when the limit becomes 2: it keeps them, gets no more, and may have 2 when it freed them."""
    table = two(3, 0)
    assert table.feed(TermsSet("c", limited(2))) == ["limit A 2 beside 0", "limit B 2 beside 3"]
    assert "refuse A 1" in table.grows("A", 3.25)
    assert table.grows("B", 0.25) == ["evict A 3"]
    assert "refuse B 1" in table.has("A", 3, 3)
    table.has("A", 0, 0)
    assert is_granted(table.grows("A", 2), "A", 2)


def test_a_limit_that_comes_late_takes_slack_back() -> None:
    """A was admitted more than it asked for before its container was known: it can't use that to pass the limit."""
    table = Table()
    table.comes("A", 1)
    table.grows("A", 2)
    table.has("A", 2, 1, slack=0.125)
    assert table.feed(ContainerFound(ord("A"), "c", limited(2)))[0].startswith("allot A")
    assert "refuse A 2" in table.grows("A", 2.0625)


def test_the_limit_is_gone() -> None:
    """Without one all that fits is admitted, and the client hears it."""
    table = two(3, 1)
    assert table.feed(TermsSet("c", Terms())) == ["limit A 0 beside 0", "limit B 0 beside 0"]
    assert is_granted(table.grows("A", 8), "A", 1)


def test_each_hears_what_the_others_have() -> None:
    """When it changes, and not before; also one whose memory does not swap."""
    table = two(1, 1)
    assert table.feed(ClientRegistered(ord("N"), DEVICE, GIB, ClaimedState.IDLE, backend=Backend.NATIVE)) == []
    assert enters(table, "N") == ["limit A 4 beside 2", "limit B 4 beside 2", "limit N 4 beside 2"]
    assert table.feed(FootprintChanged(ord("N"), GIB)) == []
    assert table.feed(FootprintChanged(ord("N"), 0)) == ["limit A 4 beside 1", "limit B 4 beside 1"]
    table.grows("A", 3.5)
    assert "refuse A 1" in table.has("B", 1, 1)


@pytest.mark.parametrize("freed", [False, True])
def test_who_is_gone_may_come_back(freed: bool) -> None:
    """B's connection ended; its process may live on with its GiB, so what A wants waits until that is known."""
    table = two(1, 1)
    assert "limit A 4 beside 0" in table.feed(ClientGone(ord("B")))
    assert table.grows("A", 3.5) == []
    if freed:
        assert is_granted(table.feed(MemoryFreed(ord("B"))), "A", 1)
    else:
        table.comes("B", 1)
        assert "evict B 1" in enters(table, "B")
        assert "refuse A 1" in table.has("B", 1, 1)


def test_who_freed_and_did_not_say_so_is_asked() -> None:
    """B has none of the 2 GiB any more that it told of: what A wants is there, and A gets it with B's answer."""
    table = two(1, 0)
    table.grows("B", 0, fixed=2)
    table.has("B", 0, 0, fixed=2)
    assert table.grows("A", 3.5) == ["evict B 0"]
    assert is_granted(table.has("B", 0, 0), "A", 1)


def test_an_answer_from_before_the_question_decides_nothing() -> None:
    """What B said when it had not read the question may be older than what it freed."""
    table = two(1, 0)
    table.grows("B", 0, fixed=2)
    table.has("B", 0, 0, fixed=2)
    before = table.orders["B"]
    table.grows("A", 3.5)
    assert table.has("B", 0, 0, fixed=2, order=before) == []
    assert "refuse A 1" in table.has("B", 0, 0, fixed=2)


def test_all_are_asked_and_each_has_its_say() -> None:
    """B still has what it had, and C has less: A is not refused before both have said so."""
    table = two(0, 1)
    table.comes("C", 2)
    enters(table, "C")
    assert table.grows("A", 2.5) == ["evict B 1", "evict C 2"]
    assert table.has("B", 1, 1) == []
    assert is_granted(table.has("C", 0.5, 0.5), "A", 1)


def test_nobody_is_asked_in_vain() -> None:
    """Who wants more than the limit is refused at once, and who has nothing is not asked."""
    table = two(1, 1)
    assert "refuse A 1" in table.grows("A", 4.25)
    table.comes("C", 0)
    enters(table, "C")
    assert table.grows("A", 3.5) == ["evict B 1"]


def test_who_does_not_answer_is_awaited_for_a_moment() -> None:
    """B is stopped: A is refused a tenth of a second later, and from then on at once, until B says something."""
    table = two(1, 1)
    assert table.grows("A", 3.5) == ["evict B 1"]
    assert "refuse A 1" in table.timer()
    assert table.now == pytest.approx(0.1)
    assert "refuse A 2" in (said := table.grows("A", 3.5))
    assert not any(line.startswith("evict") for line in said)
    table.has("B", 1, 1)
    assert table.grows("A", 3.5) == ["evict B 1"]


def test_who_says_other_things_is_not_awaited_for_longer() -> None:
    """B tells of its memory while it can't go by what it was told: A is refused after the same time."""
    table = two(1, 1)
    before = table.orders.get("B", 0)
    table.grows("A", 3.5)
    table.now = 0.06
    assert table.has("B", 1, 1, order=before) == []
    assert "refuse A 1" in table.timer()
    assert table.now == pytest.approx(0.1)


def test_each_growth_is_a_question_of_its_own() -> None:
    """What was answered before A got the one does not count for the next."""
    table = two(1, 0)
    table.grows("B", 0, fixed=2)
    table.has("B", 0, 0, fixed=2)
    table.grows("A", 2.5)
    table.has("B", 0, 0, fixed=1)
    table.has("A", 2.5, 2.5)
    assert table.grows("A", 3.5) == ["evict B 0"]


def test_who_goes_while_it_is_asked() -> None:
    """B is killed before it answers: A waits until its memory is known to be free, and gets it."""
    table = two(1, 1)
    assert table.grows("A", 3.5) == ["evict B 1"]
    table.feed(ClientGone(ord("B")))
    assert is_granted(table.feed(MemoryFreed(ord("B"))), "A", 1)


def test_two_that_wait_keep_nothing_from_each_other() -> None:
    """Both want more, and freed some meanwhile: what they were admitted before they lose, so one of them goes on."""
    table = two(2, 2)
    table.grows("A", 2.5)
    table.grows("B", 2.5)
    assert "allot A 0.5" in table.has("A", 0.5, 0.5, slack=1.5)
    assert "allot B 0.5" in table.has("B", 0.5, 0.5, slack=1.5)
    table.has("A", 0.5, 0.5)
    assert is_granted(table.has("B", 0.5, 0.5), "A", 1)


def test_what_was_granted_and_not_told_counts_for_the_next_growth() -> None:
    """A was granted 2 GiB of arrays and may have them: 3 that move are too many until it has said that it has not."""
    table = two(0, 0)
    assert is_granted(table.grows("A", 0, fixed=2), "A", 1)
    assert table.grows("A", 3) == []
    assert is_granted(table.has("A", 0, 0), "A", 2)


def test_what_was_granted_and_not_used_is_free_though_more_was_granted_since() -> None:
    """A says that it has none of its 2 GiB of arrays when it has not heard yet of what it was granted then."""
    table = two(0, 0)
    table.grows("A", 0, fixed=2)
    first = table.orders["A"]
    assert is_granted(table.grows("A", 1), "A", 2)
    table.has("A", 0, 0, order=first)
    assert is_granted(table.grows("B", 3), "B", 1)


def test_what_was_taken_back_is_not_promised_to_others_before_that_is_read() -> None:
    """A may take eight until it reads that it may have two, and there is no host memory that it could leave to."""
    table = Table(host=0)
    table.answers = False
    for name, container in (("A", "c"), ("B", "c"), ("C", "")):
        table.comes(name, arena=0)
        table.feed(ContainerFound(ord(name), container, limited(10) if container else Terms()))
    assert is_granted(table.grows("A", 8), "A", 1)
    table.has("A", 2, 2, slack=6)
    assert table.grows("B", 5) == ["allot A 2"]
    assert not is_granted(table.grows("C", 7.5), "C", 1)
    said = table.has("A", 2, 2)
    assert is_granted(said, "B", 1)
    assert is_granted(said, "C", 1)
