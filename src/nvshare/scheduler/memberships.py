"""Tells the core in which container each client is, and on which terms.

The container: what the kernel says comes first. A process of a pod is in its pod's container, whatever it says. Outside
of pods a name counts that the process says, among processes of the same user. A process without a name is in a
container with its own clients alone. A name counts at once, so that a limit does, until it is known that the process is
in a pod. A process that a pid namespace hides may be in any pod; it is in a container of its own.

The terms: what the operator sets for a container counts, then the annotations of its pod, then the environment of its
processes. Where their environments differ, the process counts that came first of those that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from nvshare import display
from nvshare.container_names import PROCESS
from nvshare.log import Log
from nvshare.scheduler.commands import InvalidCommandError
from nvshare.scheduler.core.events import ContainerFound, TermsSet
from nvshare.scheduler.core.terms import SomeTerms, Terms, WhenFull
from nvshare.scheduler.dispatcher import Dispatcher
from nvshare.scheduler.pods.identity import Source
from nvshare.scheduler.recovery.annotated import Annotated, PodContainer
from nvshare.scheduler.recovery.choices import Choices

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
    differed: bool = False
    """Clients said different things, which was logged."""

    @property
    def said(self) -> SomeTerms:
        """What counts of what its clients say."""
        terms = SomeTerms()
        for said in self.members.values():
            terms = terms.over(said)
        return terms


class Memberships:
    """Every client's container."""

    def __init__(self, dispatcher: Dispatcher, choices: Choices, annotated: Annotated, log: Log) -> None:
        self._dispatcher = dispatcher
        self._choices = choices
        self._annotated = annotated
        self._log = log
        self._members: dict[int, _Member] = {}
        self._containers: dict[str, _Container] = {}
        self.annotations_told: list[Callable[[], None]] = []
        """Are called after the node agent told what annotations say, whether that is news or not."""

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
        if container in self._containers:
            self._dispatcher.feed(TermsSet(container, self._counts(container)))

    def annotate(self, terms: Mapping[PodContainer, SomeTerms], *, complete: bool = True) -> None:
        """Takes what annotations say now, of all containers of the node that have any; see ``Annotated.replace``."""
        before = {name: self._counts(name) for name in self._containers}
        if self._annotated.replace(terms, complete=complete):
            for name, former in before.items():
                if (now := self._counts(name)) != former:
                    self._log.info("terms annotated", container=name, **self._annotations(name).said())
                    self._dispatcher.feed(TermsSet(name, now))
        for told in self.annotations_told:
            told()

    def is_told_of(self, pod_uid: str) -> bool:
        """Whether all is known that annotations of a pod ask for."""
        return self._annotated.tells_of(pod_uid)

    def clients_of(self, named: str) -> tuple[int, ...]:
        """The clients of a container, or of the process ``pid:PID``; InvalidCommandError when there are none."""
        if named.startswith(PROCESS):
            clients = self._dispatcher.clients
            if found := tuple(each for each in self._members if f"{PROCESS}{clients[each].pid}" == named):
                return found
        container = self._find(named)
        if container not in self._containers:
            raise UnknownContainerError(f"container {named!r} has no processes that use a GPU now")
        return tuple(self._containers[container].members)

    def origins(self, container: str) -> Origins:
        """Where the terms of a container come from."""
        if container not in self._containers:
            return Origins()
        command = tuple(self._choices.terms.get(container, SomeTerms()).said())
        annotation = self._annotations(container).said()
        return Origins(command, tuple(name for name in annotation if name not in command))

    def _find(self, named: str) -> str:
        known = {*self._containers, *self._choices.terms}
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
        name = self._name(number)
        if name == member.container and not news:
            return
        if name != member.container:
            self._leave(number, member.container)
            member.container = name
        terms = member.said.terms(f"@{self._dispatcher.clients[number].description.uid}")
        if name:
            self._enter(number, name, member.said)
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
        client = self._dispatcher.clients[number].description
        if client.place is not None:
            container.places[number] = PodContainer(client.place.pod_uid, client.identity.container)

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
        given = self._choices.terms.get(name, SomeTerms()).over(self._annotations(name))
        # Who starts a pod does not look on; a person at a terminal wants to know at once.
        usual = SomeTerms(when_full=WhenFull.WAIT if self._containers[name].places else WhenFull.REFUSE)
        return self._terms(name).over(usual).terms("" if given.weight is not None else _owner(name))

    def _terms(self, name: str) -> SomeTerms:
        chosen = self._choices.terms.get(name, SomeTerms())
        return chosen.over(self._annotations(name)).over(self._containers[name].said)

    def _annotations(self, name: str) -> SomeTerms:
        terms = SomeTerms()
        for place in self._containers[name].places.values():
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


def _owner(container: str) -> str:
    """Who owns what runs in a container, as far as weights go; empty: root outside of any pod, who may do anything."""
    user = container.rpartition("@")[2] if "@" in container else None
    if user is None:
        return container
    return "" if user == "0" else f"@{user}"
