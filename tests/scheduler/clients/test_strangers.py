"""When kubelet's word on a client counts, and what is remembered of it."""

from __future__ import annotations

import pytest

from nvshare.scheduler.clients.faults import Fault, PeerError
from nvshare.scheduler.clients.strangers import Strangers
from nvshare.scheduler.pods.allocations import Listed, listed
from nvshare.scheduler.pods.cgroups import Place
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity, Source
from nvshare.scheduler.recovery.awaited import Process

A = "GPU-6e767368-6172-6500-0000-000000000001"
B = "GPU-6e767368-6172-6500-0000-000000000002"
HAS_B = [listed("n", "p", "c", {"nvshare.com/gpu": [f"{B}__1"]}, [])]


class Situation:
    """Clients of container n/p/c on GPU A."""

    def __init__(self) -> None:
        self.strangers = Strangers()
        self.strangers.ask_soon = self._asked
        self.wanted = 0
        self.found: list[tuple[int, frozenset[str]]] = []

    def _asked(self) -> None:
        self.wanted += 1

    def comes(self, number: int, source: Source = Source.KERNEL, uid: str = "u") -> Process:
        """It is known who a client is, of a process with the same number."""
        process = Process(A, number, 1)
        place = Place(uid, "i") if source is Source.KERNEL else None
        description = Description(number, "", Identity("n", "p", "c", source), place=place)
        self.strangers.described(number, process, description, lambda given: self.found.append((number, given)))
        return process

    def kubelet_says(self, containers: list[Listed]) -> None:
        """It is asked, and answers."""
        self.strangers.asking()
        self.strangers.answered(containers)


def test_a_stranger() -> None:
    """It is found with the answer, once; its process is refused on that GPU only, and no other one."""
    situation = Situation()
    process = situation.comes(1)
    situation.strangers.check(process)
    situation.kubelet_says(HAS_B)
    situation.kubelet_says(HAS_B)
    assert situation.found == [(1, frozenset({B}))]
    assert situation.wanted == 1
    with pytest.raises(PeerError, match=f"kubelet gave this container other GPUs than {A}") as caught:
        situation.strangers.check(process)
    assert caught.value.fault is Fault.NOT_GIVEN
    situation.strangers.check(Process(B, 1, 1))
    situation.strangers.check(Process(A, 1, 2))
    situation.strangers.check(Process(A, 2, 1))


def test_the_owner() -> None:
    """Nothing happens to it, whatever kubelet says later."""
    situation = Situation()
    situation.comes(1)
    situation.kubelet_says([listed("n", "p", "c", {"nvshare.com/gpu": [f"{A}__1"]}, [])])
    situation.kubelet_says(HAS_B)
    situation.comes(2)
    assert not situation.found
    assert situation.wanted == 1


def test_an_answer_to_an_earlier_question() -> None:
    """It may be of a former pod with that name: it says nothing of a client that came after the question."""
    situation = Situation()
    situation.strangers.asking()
    situation.comes(1)
    situation.strangers.answered(HAS_B)
    assert not situation.found
    situation.kubelet_says(HAS_B)
    assert situation.found


def test_a_container_that_is_known() -> None:
    """Its next client is found at once; one of another container with the same names has to wait for kubelet."""
    situation = Situation()
    situation.comes(1)
    situation.kubelet_says(HAS_B)
    situation.comes(2)
    situation.comes(3, uid="another")
    assert [number for number, _given in situation.found] == [1, 2]
    assert situation.wanted == 2


def test_who_can_not_be_judged_yet() -> None:
    """A client that kubelet does not list is judged when it does; one that has left never is."""
    situation = Situation()
    situation.comes(1)
    situation.comes(2)
    situation.kubelet_says([])
    situation.strangers.left(2)
    situation.kubelet_says(HAS_B)
    assert [number for number, _given in situation.found] == [1]


@pytest.mark.parametrize("source", [Source.NONE, Source.HINT])
def test_who_is_in_no_pod(source: Source) -> None:
    """As far as the kernel says; kubelet is not even asked."""
    situation = Situation()
    situation.comes(1, source)
    situation.kubelet_says(HAS_B)
    assert not situation.found
    assert not situation.wanted


def test_which_devices_are_shared() -> None:
    """Those that containers hold as kubelet said last."""
    strangers = Situation().strangers
    assert not strangers.is_shared(B)
    strangers.answered(HAS_B)
    assert strangers.is_shared(B)
    assert not strangers.is_shared(A)
    strangers.answered([])
    assert not strangers.is_shared(B)


def test_not_everything_is_remembered() -> None:
    """Of very many processes the first ones are forgotten: they are found once more."""
    situation = Situation()
    situation.comes(1)
    situation.kubelet_says(HAS_B)
    for number in range(2, 4098):
        situation.comes(number)
    situation.strangers.check(Process(A, 1, 1))
    with pytest.raises(PeerError):
        situation.strangers.check(Process(A, 2, 1))
