"""In which container a client is, as more and more is known of it; with a core and no sockets."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import structlog

from nvshare.log import Log
from nvshare.scheduler.commands import InvalidCommandError
from nvshare.scheduler.core.actions import ClientAction
from nvshare.scheduler.core.core import Core
from nvshare.scheduler.core.events import ClaimedState, ClientRegistered
from nvshare.scheduler.core.settings import Settings
from nvshare.scheduler.core.snapshot import ClientSnapshot
from nvshare.scheduler.core.terms import Priority, Terms, WhenFull
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.memberships import Memberships, Origins, UnknownContainerError
from nvshare.scheduler.pods.cgroups import Place
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity, Source
from nvshare.scheduler.recovery.annotated import Annotated, PodContainer
from nvshare.scheduler.recovery.choices import Choices
from nvshare.scheduler.recovery.record import Record
from nvshare.scheduler.recovery.resource_claims import ResourceClaims
from nvshare.scheduler.registered_client import RegisteredClient
from nvshare.scheduler.some_terms import SomeTerms

DEVICE = "GPU-a"
POD = Identity("default", "notebook-0", "main", Source.KERNEL)
POD_UID = "0c5c4fb3-4e1b-4f47-9f2f-7a6a3c1d0001"
MAIN = PodContainer(POD_UID, "main")
POD_TERMS = Terms(when_full=WhenFull.WAIT)
"""Of a pod whose user says nothing."""
TWO = SomeTerms(weight=2.0)
THREE = SomeTerms(weight=3.0)


class Receiver:
    """A client that hears nothing."""

    def deliver(self, action: ClientAction) -> None:
        """Nothing."""

    def send_with(self, *_: object) -> None:
        """Nothing."""

    def send_arena(self, *_: object) -> None:
        """Nothing."""

    def set_scheduling(self, on: bool) -> None:
        """Nothing."""

    def kill(self) -> None:
        """Nothing."""


@dataclass
class Shell:
    """What stands around the memberships."""

    folder: Path
    log: Log = field(default_factory=lambda: structlog.wrap_logger(structlog.testing.CapturingLogger()))
    last: int = 0
    dispatcher: Dispatcher = field(init=False)
    memberships: Memberships = field(init=False)

    def __post_init__(self) -> None:
        settings = Settings()
        self.choices = Choices(self.folder / "choices.json", settings, self.log)
        record = Record(self.folder / "holders", "holders", self.log)
        loop = asyncio.get_running_loop()
        core, nothing = Core(settings), lambda _: None
        self.dispatcher = Dispatcher(
            core, loop, self.log, record, self.choices, nothing, nothing, lambda _action, _clients: None, nothing
        )
        self.annotated = Annotated(self.folder / "annotated.json", self.log)
        self.claims = ResourceClaims(self.folder / "resource-claims.json", self.log)
        self.memberships = Memberships(self.dispatcher, self.choices, self.annotated, self.claims, self.log)
        self.dispatcher.make_known(DEVICE, 16)

    def comes(self, pid: int, uid: int = 1000) -> int:
        """A process registers."""
        self.last += 1
        client = RegisteredClient(Receiver(), DEVICE, 2, "native", pid, Description(pid, "", Identity(), uid))
        event = ClientRegistered(self.last, DEVICE, 0, ClaimedState.IDLE)
        self.dispatcher.register(client, event, lambda: None)
        self.memberships.came(self.last)
        return self.last

    def described(self, number: int, identity: Identity, uid: int = 1000, pod_uid: str = POD_UID) -> None:
        """It is known who a client is; one in a pod is in the one with this uid."""
        pid = self.dispatcher.clients[number].pid
        place = Place(pod_uid, "") if identity.source is Source.KERNEL else None
        self.dispatcher.described(number, Description(pid, "", identity, uid, place=place))
        self.memberships.described(number)

    def leaves(self, number: int) -> None:
        """A client is gone."""
        self.dispatcher.remove(number, lambda _: False)
        self.memberships.left(number)

    def of(self, number: int) -> ClientSnapshot:
        """What the core knows of a client, but for whose word its weight is."""
        shown = self.dispatcher.client(number)
        return replace(shown, terms=replace(shown.terms, owner=""))

    def owner(self, number: int) -> str:
        """Among whose containers the weight of a client's counts; empty: against all."""
        return self.dispatcher.client(number).terms.owner

    def is_in(self, number: int, container: str, terms: Terms) -> bool:
        """Whether a client is in a container on these terms."""
        return (self.of(number).container, self.of(number).terms) == (container, terms)


@pytest.fixture
async def shell(tmp_path: Path) -> Shell:
    """One that has no clients."""
    return Shell(tmp_path)


async def test_its_process_first_then_its_name_then_its_pod(shell: Shell) -> None:
    """Each is known later than the one before, and what it asks for goes with it."""
    client = shell.comes(7)
    assert shell.is_in(client, "pid:7@1000", Terms())
    shell.memberships.said(client, TWO, "train")
    assert shell.is_in(client, "train@1000", Terms(weight=2.0))
    shell.described(client, POD)
    assert shell.is_in(client, "default/notebook-0/main", replace(POD_TERMS, weight=2.0))


async def test_what_a_hint_says_is_no_identity(shell: Shell) -> None:
    """A process that can't be seen may say that it is anybody: it is in a container of its own, on its own terms."""
    client, other = shell.comes(0), shell.comes(0)
    shell.memberships.said(client, TWO, "train")
    shell.described(client, Identity("default", "notebook-0", "main", Source.HINT))
    assert shell.is_in(client, "", Terms(weight=2.0))
    assert shell.is_in(other, "", Terms())


async def test_a_pod_is_no_other_pods_container(shell: Shell) -> None:
    """What a process of one pod is called, and asks for, is nothing to a pod or a user of that name."""
    one, other, user = shell.comes(1), shell.comes(2), shell.comes(3, uid=0)
    shell.described(other, POD)
    shell.memberships.said(user, SomeTerms(), "train")
    shell.memberships.said(one, TWO, "default/notebook-0/main")
    assert shell.is_in(other, "default/notebook-0/main", POD_TERMS)
    assert shell.is_in(one, "default/notebook-0/main@1000", Terms(weight=2.0))
    shell.memberships.said(one, TWO, "train@0")
    assert shell.is_in(one, "train@0@1000", Terms(weight=2.0))
    assert shell.is_in(user, "train@0", Terms())


async def test_who_turns_out_to_be_in_a_pod_leaves_nothing_behind(shell: Shell) -> None:
    """For a moment it counted as what it says that it is: what it asked for there is gone with it."""
    client, user = shell.comes(1), shell.comes(2)
    shell.memberships.said(client, TWO, "train")
    shell.memberships.said(user, SomeTerms(), "train")
    assert shell.is_in(user, "train@1000", Terms(weight=2.0))
    shell.described(client, POD)
    assert shell.is_in(user, "train@1000", Terms())


async def test_what_was_set_for_a_pod_counts_once_it_is_known(shell: Shell) -> None:
    """Before, its processes are nobody's."""
    first = shell.comes(1)
    shell.described(first, POD)
    shell.memberships.set_terms("default/notebook-0/main", SomeTerms(priority=Priority.LOW), frozenset())
    assert shell.of(first).terms == replace(POD_TERMS, priority=Priority.LOW)
    second = shell.comes(2)
    assert shell.of(second).terms == Terms()
    shell.described(second, POD)
    assert shell.of(second).terms == replace(POD_TERMS, priority=Priority.LOW)


async def test_who_is_gone_is_not_described(shell: Shell) -> None:
    """The answer to who it is comes too late."""
    client = shell.comes(1)
    shell.leaves(client)
    shell.memberships.described(client)
    with pytest.raises(UnknownContainerError, match="known containers: none yet"):
        shell.memberships.set_terms("pid:1@1000", TWO, frozenset())


async def test_a_name_of_several_users(shell: Shell) -> None:
    """Without its user it is clear only where there is one."""
    for pid, uid in ((1, 1000), (2, 1001)):
        shell.memberships.said(shell.comes(pid, uid), SomeTerms(), "train")
    with pytest.raises(UnknownContainerError, match="may be any of train@1000, train@1001"):
        shell.memberships.set_terms("train", TWO, frozenset())
    shell.memberships.set_terms("train@1001", TWO, frozenset())
    assert [shell.of(number).terms.weight for number in (1, 2)] == [1.0, 2.0]


async def test_no_more_than_so_many_are_remembered(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was set can be changed and taken back then, but nothing be set for one more."""
    monkeypatch.setattr("nvshare.scheduler.memberships._MOST_CHOICES", 1)
    for pid, name in ((1, "one"), (2, "two")):
        shell.memberships.said(shell.comes(pid), SomeTerms(), name)
    shell.memberships.set_terms("one", TWO, frozenset())
    with pytest.raises(InvalidCommandError, match="1 containers"):
        shell.memberships.set_terms("two", TWO, frozenset())
    shell.memberships.set_terms("one", SomeTerms(weight=3.0), frozenset())
    shell.memberships.set_terms("one", SomeTerms(), frozenset({"weight"}))
    shell.memberships.set_terms("two", TWO, frozenset())
    assert list(shell.choices.terms) == ["two@1000"]


async def test_whose_word_counts(shell: Shell) -> None:
    """What was set, then annotations, then the environment: for each term by itself, and live."""
    client = shell.comes(1)
    asked = SomeTerms(weight=1.5, priority=Priority.LOW, compute_limit=0.5)
    shell.memberships.said(client, asked, "")
    shell.described(client, POD)
    shell.memberships.annotate({MAIN: SomeTerms(weight=3.0, priority=Priority.HIGH)})
    assert shell.of(client).terms == replace(POD_TERMS, weight=3.0, priority=Priority.HIGH, compute_limit=0.5)
    shell.memberships.set_terms("default/notebook-0/main", TWO, frozenset())
    assert shell.of(client).terms == replace(POD_TERMS, weight=2.0, priority=Priority.HIGH, compute_limit=0.5)
    assert shell.memberships.origins("default/notebook-0/main") == Origins(("weight",), (), ("priority",))
    shell.memberships.set_terms("default/notebook-0/main", SomeTerms(), frozenset({"weight"}))
    assert shell.of(client).terms == replace(POD_TERMS, weight=3.0, priority=Priority.HIGH, compute_limit=0.5)
    shell.memberships.annotate({})
    assert shell.of(client).terms == replace(asked.terms(), when_full=WhenFull.WAIT)
    assert shell.memberships.origins("default/notebook-0/main") == Origins()


async def test_against_whom_a_weight_counts(shell: Shell) -> None:
    """What a program says, among its user's or in its pod's container; what an operator or root says, against all."""
    client, root, hidden, pod = shell.comes(1), shell.comes(2, uid=0), shell.comes(0), shell.comes(3, uid=0)
    for each in (client, root, hidden, pod):
        shell.memberships.said(each, TWO, "")
    shell.described(pod, POD, uid=0)
    assert [shell.owner(each) for each in (client, root, hidden, pod)] == [
        "@1000",
        "",
        "@1000",
        "default/notebook-0/main",
    ]
    shell.memberships.annotate({MAIN: TWO})
    shell.memberships.set_terms("pid:1@1000", TWO, frozenset())
    assert [shell.owner(each) for each in (client, pod)] == ["", ""]
    shell.memberships.annotate({})
    shell.memberships.set_terms("pid:1@1000", SomeTerms(), frozenset({"weight"}))
    assert [shell.owner(each) for each in (client, pod)] == ["@1000", "default/notebook-0/main"]


async def test_annotations_of_those_who_come_later(shell: Shell) -> None:
    """They count once it is known that a process is in the pod."""
    shell.memberships.annotate({MAIN: THREE})
    client = shell.comes(1)
    assert shell.of(client).terms == Terms()
    shell.described(client, POD)
    assert shell.is_in(client, "default/notebook-0/main", replace(POD_TERMS, weight=3.0))


async def test_a_pod_of_the_same_name_inherits_no_annotation(shell: Shell) -> None:
    """Its uid says that it is another one. While a process of the former one lives, the newer one's count."""
    other = "0c5c4fb3-4e1b-4f47-9f2f-7a6a3c1d0002"
    shell.memberships.annotate({MAIN: THREE})
    former = shell.comes(1)
    shell.described(former, POD)
    shell.leaves(former)
    client = shell.comes(2)
    shell.described(client, POD, pod_uid=other)
    assert shell.of(client).terms == POD_TERMS
    former = shell.comes(3)
    shell.described(former, POD)
    shell.leaves(client)
    client = shell.comes(4)
    shell.described(client, POD, pod_uid=other)
    shell.memberships.annotate({MAIN: THREE, PodContainer(other, "main"): TWO})
    assert shell.of(client).terms == replace(POD_TERMS, weight=2.0)


async def test_a_process_in_no_known_container_of_its_pod(shell: Shell) -> None:
    """What the whole pod's annotations say counts for it, also while only the pod's uid is known."""
    shell.memberships.annotate({PodContainer(POD_UID, ""): TWO, MAIN: THREE})
    client, nameless = shell.comes(1), shell.comes(2)
    shell.described(client, Identity("default", "notebook-0", "", Source.KERNEL))
    shell.described(nameless, Identity(pod=POD_UID, source=Source.KERNEL))
    assert shell.is_in(client, "default/notebook-0", replace(POD_TERMS, weight=2.0))
    assert shell.is_in(nameless, POD_UID, replace(POD_TERMS, weight=2.0))


async def test_what_a_process_says_of_its_pod_is_no_claim_to_annotations(shell: Shell) -> None:
    """Only the kernel's word makes it a part of the pod."""
    shell.memberships.annotate({MAIN: THREE, PodContainer("", ""): THREE, PodContainer("", "main"): THREE})
    client = shell.comes(0)
    shell.described(client, Identity("default", "notebook-0", "main", Source.HINT))
    assert shell.is_in(client, "", Terms())


async def test_annotations_end_with_the_pods_last_process(shell: Shell) -> None:
    """A process of the next pod of the name, which was there beside it, keeps nothing of them."""
    shell.memberships.annotate({MAIN: THREE})
    former, client = shell.comes(1), shell.comes(2)
    shell.described(former, POD)
    shell.described(client, POD, pod_uid="0c5c4fb3-4e1b-4f47-9f2f-7a6a3c1d0002")
    assert shell.of(client).terms == replace(POD_TERMS, weight=3.0)
    shell.leaves(former)
    assert shell.of(client).terms == POD_TERMS
