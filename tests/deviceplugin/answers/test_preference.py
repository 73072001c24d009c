"""GetPreferredAllocation: round by round over distinct GPUs, those with the least or with the most allocated first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.deviceplugin.answers.preference import AllocationPolicy, Load, prefer
from nvshare.deviceplugin.answers.requests import RequestError, Rules
from nvshare.deviceplugin.devices import Offer, Snapshot, VirtualDevice, parse

RULES = Rules("nvshare.com/gpu")
DISTINCT = Rules("nvshare.com/gpu", require_distinct=True)


def ids(uuid: str, *ordinals: int) -> list[str]:
    return [VirtualDevice(uuid, ordinal).id for ordinal in ordinals]


TWO = Snapshot((Offer("GPU-a", 10), Offer("GPU-b", 10)))


@dataclass(frozen=True)
class Request:
    """What kubelet may ask: must_include is a part of available, and not more than size."""

    snapshot: Snapshot
    available: tuple[str, ...]
    must_include: tuple[str, ...]
    size: int


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Any node of up to 6 GPUs in any state, and any request that kubelet could make of it."""
    totals = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    snapshot = Snapshot(tuple(Offer(f"GPU-{place}", total) for place, total in enumerate(totals)))
    everything = [device.id for offer in snapshot.offers for device in offer.devices()]
    available = draw(st.lists(st.sampled_from(everything), unique=True, min_size=1))
    must_include = draw(st.lists(st.sampled_from(available), unique=True))
    size = draw(st.integers(max(1, len(must_include)), len(available)))
    return Request(snapshot, tuple(available), tuple(must_include), size)


SPREAD, PACKED = AllocationPolicy.SPREAD, AllocationPolicy.PACKED
policies = st.sampled_from(AllocationPolicy)


def answer(request: Request, policy: AllocationPolicy = SPREAD) -> tuple[str, ...]:
    return prefer(request.snapshot, RULES, request.available, request.must_include, request.size, policy=policy)


@given(requests(), policies)
def test_answer_is_what_kubelet_accepts(request_: Request, policy: AllocationPolicy) -> None:
    """As many ids as asked for, each once, all of them available, and those that must be included are."""
    chosen = answer(request_, policy)
    assert len(chosen) == len(set(chosen)) == request_.size
    assert set(chosen) <= set(request_.available)
    assert set(request_.must_include) <= set(chosen)


@given(requests(), policies)
def test_a_request_is_as_even_as_possible(request_: Request, policy: AllocationPolicy) -> None:
    """One container's devices: no GPU gets one more than another that still had a free one, unless it had to."""
    chosen = answer(request_, policy)
    given_to = Counter(parse(device_id).uuid for device_id in chosen)
    forced = Counter(parse(device_id).uuid for device_id in request_.must_include)
    free = Counter(parse(device_id).uuid for device_id in request_.available)
    for uuid, count in given_to.items():
        if count > forced[uuid]:
            assert all(count <= given_to[other] + 1 for other in free if given_to[other] < free[other])


@given(requests(), st.randoms(), policies)
def test_order_of_the_ids_says_nothing(request_: Request, dice: Random, policy: AllocationPolicy) -> None:
    """kubelet shuffles the ids at every call: the answer stays the same set."""
    available, must_include = list(request_.available), list(request_.must_include)
    dice.shuffle(available)
    dice.shuffle(must_include)
    shuffled = Request(request_.snapshot, tuple(available), tuple(must_include), request_.size)
    assert set(answer(shuffled, policy)) == set(answer(request_, policy))


@given(st.lists(st.integers(1, 8), min_size=1, max_size=5), st.data())
def test_one_by_one_fills_evenly(totals: list[int], data: st.DataObject) -> None:
    """Containers that ask for one each are spread: no GPU has two more than another that has a free one."""
    snapshot = Snapshot(tuple(Offer(f"GPU-{place}", total) for place, total in enumerate(totals)))
    available = {device.id for offer in snapshot.offers for device in offer.devices()}
    taken: Counter[str] = Counter({offer.uuid: 0 for offer in snapshot.offers})
    for _ in range(data.draw(st.integers(0, len(available)))):
        (chosen,) = prefer(snapshot, RULES, sorted(available), [], 1)
        available.remove(chosen)
        taken[parse(chosen).uuid] += 1
        open_ones = [taken[offer.uuid] for offer in snapshot.offers if taken[offer.uuid] < offer.virtual_devices]
        assert not open_ones or max(taken.values()) - min(open_ones) <= 1


@given(st.lists(st.integers(1, 8), min_size=1, max_size=5), st.data())
def test_packed_fills_one_after_the_other(totals: list[int], data: st.DataObject) -> None:
    """Containers that ask for one each: a GPU without containers gets one only when no other has a free one."""
    snapshot = Snapshot(tuple(Offer(f"GPU-{place}", total) for place, total in enumerate(totals)))
    available = {device.id for offer in snapshot.offers for device in offer.devices()}
    taken: Counter[str] = Counter()
    for _ in range(data.draw(st.integers(0, len(available)))):
        (chosen,) = prefer(snapshot, RULES, sorted(available), [], 1, policy=PACKED)
        begun = {parse(device_id).uuid for device_id in available if taken[parse(device_id).uuid]}
        assert parse(chosen).uuid in begun or not begun
        available.remove(chosen)
        taken[parse(chosen).uuid] += 1


@given(requests(), st.data())
def test_packed_takes_the_fullest(request_: Request, data: st.DataObject) -> None:
    """Of GPUs with a free one, one with the most allocated, whatever the scheduler says of their load."""
    loads = {
        offer.uuid: Load(data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5)))
        for offer in request_.snapshot.offers
    }
    (chosen,) = prefer(request_.snapshot, RULES, request_.available, [], 1, loads, PACKED)
    free = Counter(parse(device_id).uuid for device_id in request_.available)
    allocated = {uuid: request_.snapshot.total(uuid) - count for uuid, count in free.items()}
    assert allocated[parse(chosen).uuid] == max(allocated.values())


def test_packed_by_load_among_equals() -> None:
    """Of two with equally much allocated, the one with less to do."""
    available = ids("GPU-a", 2, 3) + ids("GPU-b", 2, 3)
    loads = {"GPU-a": Load(busy=3, containers=8), "GPU-b": Load(busy=0, containers=8)}
    assert prefer(TWO, RULES, available, [], 1, loads, PACKED) == ("GPU-b__2",)
    assert prefer(TWO, RULES, available, [], 1, None, PACKED) == ("GPU-a__2",)


def test_what_is_withheld_is_not_allocated() -> None:
    """A GPU that has no memory for more is not taken for one that is full of containers."""
    offers = Snapshot((Offer("GPU-a", 10, withheld=frozenset(range(4, 11))), Offer("GPU-b", 10)))
    available = ids("GPU-a", 1, 2, 3) + ids("GPU-b", *range(2, 11))
    assert prefer(offers, RULES, available, [], 1, policy=PACKED) == ("GPU-b__2",)
    assert prefer(offers, RULES, available, [], 1, policy=SPREAD) == ("GPU-a__1",)


def test_the_first_goes_to_the_first() -> None:
    """Ties are broken by the order of the GPUs, then by ordinal as a number."""
    everything = ids("GPU-b", *range(1, 11)) + ids("GPU-a", *range(1, 11))
    assert prefer(TWO, RULES, everything, [], 1) == ("GPU-a__1",)
    assert prefer(TWO, RULES, ids("GPU-a", 10, 9) + ids("GPU-b", 2), [], 1) == ("GPU-a__9",)


def test_two_go_to_two() -> None:
    """A request for k gets k GPUs where there are k, even if one of them is busier."""
    available = ids("GPU-a", *range(1, 11)) + ids("GPU-b", 10)
    assert prefer(TWO, RULES, available, [], 2) == ("GPU-a__1", "GPU-b__10")


def test_must_include_counts() -> None:
    """What must be included takes its GPU's turn in the round."""
    available = ids("GPU-a", 1, 2, 3) + ids("GPU-b", 1, 2, 3)
    assert prefer(TWO, RULES, available, ["GPU-a__2"], 2) == ("GPU-a__2", "GPU-b__1")


def test_too_few_are_answered_with_all() -> None:
    """Best effort: an error would fail the pod for good."""
    assert set(prefer(TWO, RULES, ids("GPU-a", 1), [], 3)) == {"GPU-a__1"}


def test_strange_ids_are_a_last_resort() -> None:
    """An id of another shape or another GPU is given only when nothing else is left."""
    available = ["what?", *ids("GPU-z", 1), *ids("GPU-a", 1)]
    assert prefer(TWO, RULES, available, [], 3)[-1] in ("what?", "GPU-z__1")
    assert set(prefer(TWO, RULES, available, [], 3)) == set(available)


def test_distinct_or_nothing() -> None:
    """--require-distinct refuses what would share a GPU, and says how much can be had."""
    available = ids("GPU-a", 1, 2, 3) + ids("GPU-b", 1, 2, 3)
    assert len(prefer(TWO, DISTINCT, available, [], 2)) == 2
    with pytest.raises(RequestError, match=r"3 requested.*--require-distinct.*2 of its 2 GPUs.*at most 2"):
        prefer(TWO, DISTINCT, available, [], 3)
    with pytest.raises(RequestError, match="1 of its 2 GPUs"):
        prefer(TWO, DISTINCT, ids("GPU-a", 1, 2), [], 2)


def test_no_more_than_one() -> None:
    """--fail-requests-greater-than-one refuses two."""
    rules = Rules("nvshare.com/gpu", fail_requests_greater_than_one=True)
    assert prefer(TWO, rules, ids("GPU-a", 1, 2), [], 1) == ("GPU-a__1",)
    with pytest.raises(RequestError, match=r"2 requested.*at most 1"):
        prefer(TWO, rules, ids("GPU-a", 1, 2), [], 2)


def test_live_load_wins_over_counting() -> None:
    """Five that sleep are less than one that works."""
    available = ids("GPU-a", *range(6, 11)) + ids("GPU-b", *range(2, 11))
    assert prefer(TWO, RULES, available, [], 1) == ("GPU-b__2",)
    loads = {"GPU-a": Load(busy=0, containers=5), "GPU-b": Load(busy=1, containers=1)}
    assert prefer(TWO, RULES, available, [], 1, loads) == ("GPU-a__6",)


def test_who_has_not_begun_counts_as_load() -> None:
    """Containers that arrive together are spread though the scheduler does not know them yet."""
    loads = {"GPU-a": Load(0, 0), "GPU-b": Load(0, 0)}
    available = set(ids("GPU-a", *range(1, 11)) + ids("GPU-b", *range(1, 11)))
    taken: Counter[str] = Counter()
    for _ in range(6):
        (chosen,) = prefer(TWO, RULES, sorted(available), [], 1, loads)
        available.remove(chosen)
        taken[parse(chosen).uuid] += 1
    assert taken == {"GPU-a": 3, "GPU-b": 3}


@pytest.mark.parametrize("policy", AllocationPolicy)
def test_what_ends_is_not_counted(policy: AllocationPolicy) -> None:
    """One that stays beside three that end is as much as one alone: four that come instead of four are spread."""
    available = set(ids("GPU-a", *range(2, 11)) + ids("GPU-b", *range(4, 11)))
    gone = frozenset(ids("GPU-b", 2, 3))
    assert prefer(TWO, RULES, sorted(available), [], 1, None, policy, gone)[0].startswith("GPU-a")
    everything_ends = frozenset(ids("GPU-a", 1) + ids("GPU-b", 1, 2, 3))
    taken: Counter[str] = Counter()
    for _ in range(4):
        (chosen,) = prefer(TWO, RULES, sorted(available), [], 1, None, policy, everything_ends)
        available.remove(chosen)
        taken[parse(chosen).uuid] += 1
    assert taken == ({"GPU-a": 2, "GPU-b": 2} if policy is SPREAD else {"GPU-a": 4})


def test_what_ends_is_not_counted_as_not_begun() -> None:
    """With the scheduler's loads, too: what an ending pod holds will get no client."""
    loads = {"GPU-a": Load(busy=1, containers=1), "GPU-b": Load(busy=0, containers=0)}
    available = ids("GPU-a", *range(2, 11)) + ids("GPU-b", *range(4, 11))
    assert prefer(TWO, RULES, available, [], 1, loads) == ("GPU-a__2",)
    assert prefer(TWO, RULES, available, [], 1, loads, SPREAD, frozenset(ids("GPU-b", 1, 2, 3))) == ("GPU-b__4",)


def test_who_follows_at_once_is_counted() -> None:
    """What is free already is nobody's; who gets another one than an ended pod had counts, though that is not heard."""
    stale = frozenset(ids("GPU-a", 1) + ids("GPU-b", 1))
    everything = set(ids("GPU-a", 1, 2) + ids("GPU-b", 1, 2))
    given_out = []
    for _ in range(2):
        (chosen,) = prefer(TWO, RULES, sorted(everything), [], 1, ending=stale)
        everything.remove(chosen)
        given_out.append(chosen)
    assert given_out == ["GPU-a__2", "GPU-b__2"]
