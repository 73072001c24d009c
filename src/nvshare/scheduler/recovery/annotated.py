"""What annotations of this node's pods ask for, and which claims their containers have, kept for the next scheduler.

The node agent tells it. It may come back later than the scheduler, or not while the Kubernetes API is away. Until then
its last word counts. A pod is named by its uid: one of the same name that is made anew has another uid, and inherits
nothing. A pod without annotations has an entry without terms, which shows that the agent has told of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvshare.log import Log
from nvshare.scheduler.recovery import documents
from nvshare.scheduler.some_terms import SomeTerms


@dataclass(frozen=True, slots=True)
class PodContainer:
    """A container of a pod."""

    pod_uid: str
    """As the kernel says it of a process."""
    name: str
    """Empty: processes of the pod of which it is not known in which container they are."""


@dataclass(frozen=True, slots=True)
class NamedClaim:
    """A ResourceClaim that a container names."""

    full_name: str
    """NAMESPACE/NAME"""
    request: str = ""
    """Of it only what this request has; empty: all."""


Claimed = Mapping[PodContainer, tuple[NamedClaim, ...]]
"""The claims of the containers that have any."""


class Annotated:
    """The terms of annotated containers."""

    def __init__(self, path: Path, log: Log) -> None:
        """Reads what was told before."""
        self._path = path
        self._log = log
        self._terms: dict[PodContainer, SomeTerms] = {}
        self._claimed: dict[PodContainer, tuple[NamedClaim, ...]] = {}
        self._complete = True
        """Pods without annotations are told of, too."""
        self._pods: frozenset[str] = frozenset()
        try:
            self._terms, self._claimed = documents.read(path, _read)
        except FileNotFoundError:
            return
        except documents.DocumentError as error:
            log.warning(
                "annotations count when the node agent tells them again: their file can't be used",
                path=str(path),
                reason=str(error),
            )
            return
        self._pods = _pods(self._terms)
        if said := sum(1 for terms in self._terms.values() if terms.said()):
            log.info("annotations of before count", containers=said)

    def of(self, container: PodContainer) -> SomeTerms:
        """What counts for a container."""
        return self._terms.get(container, SomeTerms())

    def claims_of(self, container: PodContainer) -> tuple[NamedClaim, ...]:
        """The claims that a container has."""
        return self._claimed.get(container, ())

    def tells_of(self, pod_uid: str) -> bool:
        """Whether all is known that annotations of a pod ask for. An older node agent names only pods with some."""
        return not self._complete or pod_uid in self._pods

    def replace(
        self, terms: Mapping[PodContainer, SomeTerms], claimed: Claimed | None = None, *, complete: bool = True
    ) -> bool:
        """Takes these for all that there are, and writes them; whether that changes anything.

        ``claimed``: of containers that ``terms`` name. ``complete``: pods without annotations are among them, with an
        entry that says nothing.
        """
        self._complete = complete
        claimed = claimed or {}
        if (terms, claimed) == (self._terms, self._claimed):
            return False
        self._terms, self._claimed = dict(terms), dict(claimed)
        self._pods = _pods(terms)
        self._save()
        return True

    def restore(self) -> None:
        """Writes them if the file was removed."""
        if self._terms and not self._path.exists():
            self._save()

    def _save(self) -> None:
        document = [
            {
                "pod_uid": container.pod_uid,
                "container": container.name,
                "terms": terms.said(),
                "claims": [[claim.full_name, claim.request] for claim in self.claims_of(container)],
            }
            for container, terms in self._terms.items()
        ]
        try:
            documents.write(self._path, document)
        except OSError as error:
            self._log.warning(
                "annotations last only until this scheduler ends: they can't be written down",
                path=str(self._path),
                reason=error.strerror,
            )


def _read(document: Any) -> tuple[dict[PodContainer, SomeTerms], dict[PodContainer, tuple[NamedClaim, ...]]]:
    """An older scheduler wrote no claims."""
    entries = {PodContainer(str(entry["pod_uid"]), str(entry["container"])): entry for entry in document}
    terms = {container: documents.some_terms(entry["terms"]) for container, entry in entries.items()}
    claimed = {
        container: tuple(NamedClaim(str(name), str(request)) for name, request in entry.get("claims", ()))
        for container, entry in entries.items()
    }
    return terms, {container: claims for container, claims in claimed.items() if claims}


def _pods(terms: Mapping[PodContainer, SomeTerms]) -> frozenset[str]:
    return frozenset(container.pod_uid for container in terms)
