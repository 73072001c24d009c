"""Whose account a client of a pod counts on, as node agent and driver tell of claims; with a core and no sockets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nvshare.scheduler.accounts import Overruled
from nvshare.scheduler.core.terms import Priority, Terms, WhenFull
from nvshare.scheduler.memberships import Origins
from nvshare.scheduler.pods.identity import Identity, Source
from nvshare.scheduler.recovery.annotated import NamedClaim, PodContainer
from nvshare.scheduler.recovery.resource_claims import ClaimedDevice, ResourceClaim
from nvshare.scheduler.some_terms import SomeTerms
from tests.scheduler.test_memberships import DEVICE, MAIN, POD, POD_UID, Shell, shell

__all__ = ["shell"]

OTHER_UID = "0c5c4fb3-4e1b-4f47-9f2f-7a6a3c1d0002"
OTHER = PodContainer(OTHER_UID, "main")
OTHER_POD = Identity("default", "notebook-1", "main", Source.KERNEL)
LIMITED = SomeTerms(memory_limit_bytes=8)
SHARED = (NamedClaim("default/share"),)
ACCOUNT = "claim:default/share"
OF_CLAIM = Terms(memory_limit_bytes=8, when_full=WhenFull.WAIT)


def share(*devices: ClaimedDevice, name: str = "share", uid: str = "u1") -> ResourceClaim:
    """A claim; without devices it has the limit on the one GPU."""
    return ResourceClaim(uid, "default", name, devices or (part(),))


def part(device: str = DEVICE, terms: SomeTerms = LIMITED, request: str = "gpu") -> ClaimedDevice:
    """What a request has of a GPU."""
    return ClaimedDevice(request, device, 8, 1, False, terms)


def tells(shell: Shell, *containers: PodContainer, claims: tuple[NamedClaim, ...] = SHARED) -> None:
    """The node agent tells that these containers have these claims, and no annotations."""
    shell.memberships.annotate({each: SomeTerms() for each in containers}, dict.fromkeys(containers, claims))


@pytest.mark.parametrize(
    "order", ["claim agent client", "agent claim client", "client agent claim", "client claim agent"]
)
async def test_whatever_comes_first(shell: Shell, order: str) -> None:
    """A client is on its claim's account once all is known, and on its container's until then."""
    client = 0
    for event in order.split():
        match event:
            case "claim":
                shell.memberships.claim([share()])
            case "agent":
                tells(shell, MAIN)
            case _:
                client = shell.comes(1)
                shell.described(client, POD)
    assert shell.is_in(client, ACCOUNT, OF_CLAIM)
    assert shell.dispatcher.clients[client].account == ACCOUNT
    assert not shell.memberships.untold_claims(client)


async def test_two_pods_are_one_account(shell: Shell) -> None:
    """They share the claim; another container of one of them that has no claim is its own account."""
    shell.memberships.claim([share()])
    tells(shell, MAIN, OTHER)
    one, two, side = shell.comes(1), shell.comes(2), shell.comes(3)
    shell.described(one, POD)
    shell.described(two, OTHER_POD, pod_uid=OTHER_UID)
    shell.described(side, replace(POD, container="side"))
    assert [shell.of(each).container for each in (one, two, side)] == [ACCOUNT, ACCOUNT, "default/notebook-0/side"]
    assert sorted(shell.memberships.clients_of(ACCOUNT)) == [one, two]


async def test_whose_word_counts(shell: Shell) -> None:
    """What was set, the claim, the annotation, the environment; and what of the annotation does not count is said."""
    client = shell.comes(1)
    shell.memberships.said(client, SomeTerms(weight=1.5, compute_limit=0.5), "")
    shell.described(client, POD)
    shell.memberships.claim([share(part(terms=SomeTerms(weight=3.0, memory_limit_bytes=8, memory_request_bytes=4)))])
    annotated = SomeTerms(weight=2.0, priority=Priority.LOW, memory_limit_bytes=8, memory_request_bytes=2)
    overruled = shell.memberships.annotate({MAIN: annotated}, {MAIN: SHARED})
    assert overruled == [
        Overruled(MAIN, "weight", "default/share", "3"),
        Overruled(MAIN, "memory_request_bytes", "default/share", "its part of the GPU's memory"),
    ]
    counts = Terms(3.0, Priority.LOW, 0.5, 8, 4, WhenFull.WAIT)
    assert shell.is_in(client, ACCOUNT, counts)
    by_claim = ("weight", "memory_limit_bytes", "memory_request_bytes")
    assert shell.memberships.origins(ACCOUNT) == Origins((), by_claim, ("priority",))
    shell.memberships.set_terms(ACCOUNT, SomeTerms(weight=5.0), frozenset())
    assert shell.is_in(client, ACCOUNT, replace(counts, weight=5.0))
    assert shell.memberships.origins(ACCOUNT) == Origins(("weight",), by_claim[1:], ("priority",))
    shell.memberships.set_terms(ACCOUNT, SomeTerms(), frozenset({"weight"}))
    assert (shell.is_in(client, ACCOUNT, counts), shell.owner(client)) == (True, "")


async def test_a_changed_claim_counts_live(shell: Shell) -> None:
    """As when its memory request gets smaller, because the GPU has more claims."""
    tells(shell, MAIN)
    client = shell.comes(1)
    shell.described(client, POD)
    for request in (8, 4):
        shell.memberships.claim([share(part(terms=SomeTerms(memory_limit_bytes=8, memory_request_bytes=request)))])
        assert shell.is_in(client, ACCOUNT, replace(OF_CLAIM, memory_request_bytes=request))


@pytest.mark.parametrize("gone", ["claim", "pod", "both"])
async def test_what_is_gone_counts_for_who_is_there(shell: Shell, gone: str) -> None:
    """And for nobody who comes later."""
    shell.memberships.claim([share()])
    tells(shell, MAIN)
    client = shell.comes(1)
    shell.described(client, POD)
    if gone != "pod":
        shell.memberships.claim([])
    if gone != "claim":
        tells(shell)
    assert shell.is_in(client, ACCOUNT, OF_CLAIM)
    shell.leaves(client)
    later = shell.comes(2)
    shell.described(later, POD)
    assert shell.is_in(later, "default/notebook-0/main", Terms(when_full=WhenFull.WAIT))


async def test_other_terms_on_another_gpu(shell: Shell) -> None:
    """Then each GPU has an account; what was set for the claim counts on all, what was set for one GPU before that."""
    second = "GPU-b"
    shell.dispatcher.make_known(second, 16)
    tells(shell, MAIN)
    one, two = shell.comes(1), shell.comes(2)
    shell.dispatcher.clients[two].device = second
    shell.described(one, POD)
    shell.described(two, POD)
    more = SomeTerms(memory_limit_bytes=12)
    shell.memberships.claim([share(part(), part(second, LIMITED, "b"))])
    assert [shell.of(each).container for each in (one, two)] == [ACCOUNT, ACCOUNT]
    shell.memberships.claim([share(part(), part(second, more, "b"))])
    assert shell.is_in(one, f"{ACCOUNT}@{DEVICE}", OF_CLAIM)
    assert shell.is_in(two, f"{ACCOUNT}@{second}", replace(OF_CLAIM, memory_limit_bytes=12))
    shell.memberships.set_terms(ACCOUNT, SomeTerms(weight=2.0), frozenset())
    shell.memberships.set_terms(f"{ACCOUNT}@{second}", SomeTerms(weight=3.0), frozenset())
    assert [shell.of(each).terms.weight for each in (one, two)] == [2.0, 3.0]
    assert sorted(shell.memberships.clients_of(ACCOUNT)) == [one, two]
    shell.memberships.claim([share(part(), part(second, LIMITED, "b"))])
    assert shell.of(two).container == f"{ACCOUNT}@{second}", "nobody goes to and fro"


async def test_a_claim_without_terms_is_no_account(shell: Shell) -> None:
    """As those are that Kubernetes makes for extended resources: the container's annotations count."""
    shell.memberships.claim([share(part(terms=SomeTerms()))])
    overruled = shell.memberships.annotate({MAIN: SomeTerms(weight=3.0)}, {MAIN: SHARED})
    client = shell.comes(1)
    shell.described(client, POD)
    assert not overruled
    assert shell.is_in(client, "default/notebook-0/main", Terms(weight=3.0, when_full=WhenFull.WAIT))
    assert not shell.memberships.untold_claims(client)


async def test_several_claims_of_one_gpu(shell: Shell) -> None:
    """The first by name counts, and that is said once."""
    shell.memberships.claim([share(name="b", uid="u2"), share(name="a")])
    tells(shell, MAIN, claims=(NamedClaim("default/b"), NamedClaim("default/a")))
    with capture_logs() as lines:
        shell.memberships._log = __import__("structlog").get_logger()
        for pid in (1, 2):
            shell.described(shell.comes(pid), POD)
    assert shell.of(1).container == "claim:default/a"
    assert [line["others"] for line in lines if "several claims" in line["event"]] == [("default/b",)]


async def test_a_request_of_a_claim(shell: Shell) -> None:
    """A container that names one has no account on the GPU of another; alternatives of it are its own."""
    second = "GPU-b"
    shell.dispatcher.make_known(second, 16)
    shell.memberships.claim([share(part(request="big/first"), part(second, LIMITED, "small"))])
    tells(shell, MAIN, claims=(NamedClaim("default/share", "big"),))
    one, two = shell.comes(1), shell.comes(2)
    shell.dispatcher.clients[two].device = second
    shell.described(one, POD)
    shell.described(two, POD)
    assert [shell.of(each).container for each in (one, two)] == [ACCOUNT, "default/notebook-0/main"]


async def test_no_name_that_a_process_says_is_a_claim(shell: Shell) -> None:
    """It is a name of its user's."""
    shell.memberships.claim([share()])
    client = shell.comes(1)
    shell.memberships.said(client, SomeTerms(), "claim:default/share")
    assert shell.is_in(client, "claim:default/share@1000", Terms())


async def test_the_next_scheduler(tmp_path: Path) -> None:
    """It knows what both told the one before."""
    before = Shell(tmp_path)
    before.memberships.claim([share()])
    tells(before, MAIN)
    shell = Shell(tmp_path)
    client = shell.comes(1)
    shell.described(client, POD)
    assert shell.is_in(client, ACCOUNT, OF_CLAIM)
    assert MAIN.pod_uid == POD_UID
