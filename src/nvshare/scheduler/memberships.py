"""Tells the core on whose account each client is, and on which terms. The core calls an account a container.

The container: what the kernel says comes first. A process of a pod is in its pod's container, whatever it says. Outside
of pods a name counts that the process says, among processes of the same user. A process without a name is in a
container with its own clients alone. A name counts at once, so that a limit does, until it is known that the process is
in a pod. A process that a pid namespace hides may be in any pod; it is in a container of its own.

A claim: where a pod's container has one with terms for the client's GPU, the claim is the account (``accounts``). A
claim that is told of no more counts for the clients that it has, until they are gone.

The terms: what the operator sets for an account counts, then the claim, then the annotations of the pod, then the
environment of the processes. Where their environments differ, the process counts that came first of those that are
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from nvshare import display
from nvshare.container_names import CLAIM, PROCESS, claim_of
from nvshare.log import Log
from nvshare.scheduler.accounts import Account, Accounts, Overruled
from nvshare.scheduler.commands import InvalidCommandError
from nvshare.scheduler.core.events import ContainerFound, TermsSet
from nvshare.scheduler.core.terms import Terms, WhenFull
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.pods.identity import Source
from nvshare.scheduler.recovery.annotated import Annotated, Claimed, PodContainer
from nvshare.scheduler.recovery.choices import Choices
from nvshare.scheduler.recovery.resource_claims import ResourceClaim, ResourceClaims
from nvshare.scheduler.some_terms import SomeTerms

_MOST_CHOICES: Final = 1024
"""Containers for which something may be set."""
_MOST_NAMED: Final = 20
"""Names in a message."""


class UnknownContainerError(InvalidCommandError):
    """A command names a container that is not there."""


@dataclass(frozen=True, slots=True)
class Origins:
    """Which of a container's terms, by their fields' names, are not of its processes' environment, and no defaults."""

    command: tuple[str, ...] = ()
    """``nvshare-ctl set`` said them."""
    claim: tuple[str, ...] = ()
    """The claim said them."""
    annotation: tuple[str, ...] = ()
    """Annotations of the pod said them."""


@dataclass(slots=True)
class _Member:
    container: str = ""
    """Empty: one of its own."""
    said: SomeTerms = field(default_factory=SomeTerms)
    name: str = ""
    """That it says."""


@dataclass(slots=True)
class _Container:
    members: dict[int, SomeTerms] = field(default_factory=dict)
    """What its clients say, in the order in which they came."""
    places: dict[int, PodContainer] = field(default_factory=dict)
    """Of those of its clients that are in pods, by the kernel's word. A name may outlive its pod."""
    claimed: SomeTerms = field(default_factory=SomeTerms)
    """What its claim says, or said last."""
    differed: bool = False
    """Clients said different things, which was logged."""
    several: bool = False
    """A container has other claims of the GPU as well, which was logged."""

    @property
    def said(self) -> SomeTerms:
        """What counts of what its clients say."""
        terms = SomeTerms()
        for said in dict.fromkeys(self.members.values()):
            terms = terms.over(said)
        return terms


class Memberships:
    """Every client's container."""

    def __init__(
        self, dispatcher: Dispatcher, choices: Choices, annotated: Annotated, claims: ResourceClaims, log: Log
    ) -> None:
        self._dispatcher = dispatcher
        self._choices = choices
        self._annotated = annotated
        self._accounts = Accounts(annotated, claims)
        self._claims = claims
        self._log = log
        self._members: dict[int, _Member] = {}
        self._containers: dict[str, _Container] = {}
        self.told: list[Callable[[], None]] = []
        """Are called after node agent or driver told something, whether that is news or not."""

    def came(self, number: int) -> None:
        """A client was registered."""
        self._members[number] = _Member()
        self._place(number)

    def said(self, number: int, terms: SomeTerms, name: str) -> None:
        """A client told what its environment asks for; an empty ``name``: it says none."""
        member = self._members[number]
        member.said, member.name = terms, name
        self._place(number, news=True)

    def described(self, number: int) -> None:
        """It is now known who a client is; the client may be gone."""
        if number in self._members:
            self._place(number)

    def left(self, number: int) -> None:
        """A client is gone."""
        self._leave(number, self._members.pop(number).container)

    def set_terms(self, named: str, terms: SomeTerms, taken_back: frozenset[str]) -> None:
        """Sets some of the terms of a container, and takes others back, by their fields' names.

        InvalidCommandError when there is no such container, or one of what is set contradicts another.
        """
        container = self._find(named)
        chosen = terms.over(self._choices.terms.get(container, SomeTerms())).without(taken_back)
        if container not in self._choices.terms and len(self._choices.terms) >= _MOST_CHOICES and chosen.said():
            raise InvalidCommandError(f"something is set for {_MOST_CHOICES} containers; take something back before")
        limit, request = chosen.memory_limit_bytes, chosen.memory_request_bytes
        if limit is not None and request is not None and request > limit:
            asked, most = display.size(request), display.size(limit)
            raise InvalidCommandError(f"a memory request of {asked} is above the memory limit of {most}")
        self._choices.terms_set(container, chosen)
        self._choices.save()
        self._log.info("terms set", container=container, **chosen.said())
        for name in list(self._containers):
            if container in (name, _whole(name)):
                self._dispatcher.feed(TermsSet(name, self._counts(name)))

    def annotate(
        self, terms: Mapping[PodContainer, SomeTerms], claimed: Claimed | None = None, *, complete: bool = True
    ) -> list[Overruled]:
        """Takes what annotations say now, of all containers of the node that have any; see ``Annotated.replace``.

        The answer is what of it does not count, because claims say otherwise.
        """
        before = {name: self._counts(name) for name in self._containers}
        if self._annotated.replace(terms, claimed, complete=complete):
            self._renew(before)
        self._tell()
        return self._accounts.overruled(terms)

    def claim(self, claims: Iterable[ResourceClaim]) -> None:
        """Takes what claims of the node may have now, all that there are."""
        before = {name: self._counts(name) for name in self._containers}
        if self._claims.replace(claims):
            self._renew(before)
        self._tell()

    def _renew(self, before: Mapping[str, Terms]) -> None:
        """Brings clients and terms to where they belong now; ``before``: what counted."""
        for number in self._members:
            self._place(number)
        for name, container in list(self._containers.items()):
            if (now := self._counts(name)) != before.get(name):
                said = container.claimed.over(self._annotations(name)).said()
                self._log.info("terms told", container=name, **said)
                self._dispatcher.feed(TermsSet(name, now))

    def _tell(self) -> None:
        for told in self.told:
            told()

    def is_told_of(self, pod_uid: str) -> bool:
        """Whether all is known that annotations of a pod ask for."""
        return self._annotated.tells_of(pod_uid)

    @property
    def claims(self) -> tuple[ResourceClaim, ...]:
        """The claims of the node, as the driver told them last."""
        return self._claims.told

    @property
    def claim_calls(self) -> int:
        """How often the driver has told what claims may have."""
        return self._claims.calls

    def untold_claims(self, number: int) -> tuple[str, ...]:
        """The claims of a client's container, by the node agent's word, of which the driver has not told."""
        place = self._place_of(number)
        return () if place is None else self._accounts.untold(place)

    def clients_of(self, named: str) -> tuple[int, ...]:
        """The clients of a container, or of the process ``pid:PID``; InvalidCommandError when there are none."""
        if named.startswith(PROCESS):
            clients = self._dispatcher.clients
            if found := tuple(each for each in self._members if f"{PROCESS}{clients[each].pid}" == named):
                return found
        container = self._find(named)
        of_it = [each for name, each in self._containers.items() if container in (name, _whole(name))]
        if not of_it:
            raise UnknownContainerError(f"container {named!r} has no processes that use a GPU now")
        return tuple(number for each in of_it for number in each.members)

    def origins(self, container: str) -> Origins:
        """Where the terms of a container come from."""
        if container not in self._containers:
            return Origins()
        command = tuple(self._chosen(container).said())
        claim = tuple(name for name in self._containers[container].claimed.said() if name not in command)
        annotation = self._annotations(container).said()
        return Origins(command, claim, tuple(name for name in annotation if name not in (*command, *claim)))

    def _find(self, named: str) -> str:
        # A claim that is an account on each of its GPUs has one name for all of them, too.
        known = {*self._containers, *self._choices.terms, *map(_whole, self._containers)}
        if named in known:
            return named
        # Who it is of may be left out where that is clear.
        found = [name for name in known if name.rpartition("@")[0] == named]
        if len(found) == 1:
            return found[0]
        names = sorted(found or known)
        listed = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
        if found:
            raise UnknownContainerError(f"container {named!r} may be any of {listed}")
        raise UnknownContainerError(f"container {named!r} is unknown; known containers: {listed or 'none yet'}")

    def _place(self, number: int, *, news: bool = False) -> None:
        """Brings a client to the container where it belongs; ``news``: it said something."""
        member = self._members[number]
        account = self._account(number)
        if account is None and claim_of(member.container) and self._place_of(number) is not None:
            name = member.container
        else:
            name = self._name(number) if account is None else account.name
        if account is not None and name in self._containers:
            self._containers[name].claimed = account.terms
        if name == member.container and not news:
            return
        if name != member.container:
            self._leave(number, member.container)
            member.container = self._dispatcher.clients[number].account = name
        terms = member.said.terms(f"@{self._dispatcher.clients[number].description.uid}")
        if name:
            self._enter(number, name, member.said)
            if account is not None:
                self._claimed(name, account)
            terms = self._counts(name)
        self._dispatcher.feed(ContainerFound(number, name, terms))

    def _enter(self, number: int, name: str, said: SomeTerms) -> None:
        container = self._containers.setdefault(name, _Container())
        if said.contradicts(container.said) and not container.differed:
            container.differed = True
            self._log.warning(
                "processes of a container ask for different terms: what the first one asked for counts",
                container=name,
                client=number,
                pid=self._dispatcher.clients[number].pid,
                counts=container.said.said(),
            )
        container.members[number] = said
        if (place := self._place_of(number)) is not None:
            container.places[number] = place

    def _claimed(self, name: str, account: Account) -> None:
        container = self._containers[name]
        container.claimed = account.terms
        if account.others and not container.several:
            container.several = True
            self._log.warning(
                "a container has several claims of one GPU: the first one by name counts",
                container=name,
                others=account.others,
            )

    def _account(self, number: int) -> Account | None:
        place = self._place_of(number)
        return None if place is None else self._accounts.of(place, self._dispatcher.clients[number].device)

    def _place_of(self, number: int) -> PodContainer | None:
        """The container of a pod in which the kernel keeps a client; None: it is in none, or not known."""
        client = self._dispatcher.clients[number].description
        if client.place is None:
            return None
        return PodContainer(client.place.pod_uid, client.identity.container)

    def _leave(self, number: int, name: str) -> None:
        container = self._containers.get(name)
        if container is None:
            return
        before = self._counts(name)
        del container.members[number]
        container.places.pop(number, None)
        if container.members:
            if (now := self._counts(name)) != before:
                self._dispatcher.feed(TermsSet(name, now))
            return
        del self._containers[name]
        # Another process will have its number.
        if name.startswith(PROCESS) and name in self._choices.terms:
            self._choices.terms_set(name, SomeTerms())
            self._choices.save()

    def _counts(self, name: str) -> Terms:
        """The terms of a container as they count."""
        container = self._containers[name]
        given = self._chosen(name).over(container.claimed).over(self._annotations(name))
        # Who starts a pod does not look on; a person at a terminal wants to know at once.
        usual = SomeTerms(when_full=WhenFull.WAIT if container.places else WhenFull.REFUSE)
        return given.over(container.said).over(usual).terms("" if given.weight is not None else _owner(name))

    def _chosen(self, name: str) -> SomeTerms:
        """What the operator set for an account, and for all of the claim that it is a part of."""
        return self._choices.terms.get(name, SomeTerms()).over(self._choices.terms.get(_whole(name), SomeTerms()))

    def _annotations(self, name: str) -> SomeTerms:
        terms = SomeTerms()
        for place in dict.fromkeys(self._containers[name].places.values()):
            terms = self._annotated.of(place).over(terms)
        return terms

    def _name(self, number: int) -> str:
        member, client = self._members[number], self._dispatcher.clients[number]
        identity = client.description.identity
        if identity.source is Source.KERNEL:
            return "/".join(part for part in (identity.namespace, identity.pod, identity.container) if part)
        if not client.pid:
            return ""
        # Nothing that a pod is called has an @ in it, and what a process says is followed by the last one.
        return f"{member.name or f'{PROCESS}{client.pid}'}@{client.description.uid}"


def _whole(account: str) -> str:
    """The claim of which an account is a part; of any other account the account."""
    claim = claim_of(account)
    return f"{CLAIM}{claim}" if claim else account


def _owner(container: str) -> str:
    """Who owns what runs in a container, as far as weights go; empty: root outside of any pod, who may do anything."""
    if claim_of(container):
        return container
    user = container.rpartition("@")[2] if "@" in container else None
    if user is None:
        return container
    return "" if user == "0" else f"@{user}"
