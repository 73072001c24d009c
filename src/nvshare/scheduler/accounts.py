"""Whose account a client of a pod counts on: its container's, or that of a claim which its container has.

All that use a GPU by one claim are one account, whatever container and pod they are in. A claim that says no terms for
a GPU (one that Kubernetes made for an extended resource, one with admin access) is no account there. What containers
have which claims says the node agent, what a claim may have says the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nvshare import display
from nvshare.scheduler.recovery.annotated import Annotated, PodContainer
from nvshare.scheduler.recovery.resource_claims import ClaimedDevice, ResourceClaim, ResourceClaims
from nvshare.scheduler.some_terms import SomeTerms


@dataclass(frozen=True, slots=True)
class Account:
    """A claim's, on a GPU."""

    name: str
    """As the core calls it."""
    terms: SomeTerms
    others: tuple[str, ...] = ()
    """Claims that the container has of the same GPU, and that don't count."""


@dataclass(frozen=True, slots=True)
class Overruled:
    """What an annotation says of a container and its claim says otherwise."""

    container: PodContainer
    field: str
    """Of ``SomeTerms``."""
    claim: str
    """NAMESPACE/NAME"""
    counts: str
    """What the claim says."""


class Accounts:
    """Those of claims, as far as node agent and driver have told of them."""

    def __init__(self, annotated: Annotated, claims: ResourceClaims) -> None:
        self._annotated = annotated
        self.claims = claims

    def of(self, container: PodContainer, device: str) -> Account | None:
        """The account of a container's clients on a GPU; None: the container itself.

        With several claims of it the first one by name counts.
        """
        found = [(claim, each) for claim, each in self._claimed(container) if each.device == device]
        if not found:
            return None
        claim, counting = found[0]
        others = dict.fromkeys(other.full_name for other, _ in found if other is not claim)
        return Account(self.claims.account(claim, device), counting.terms, tuple(others))

    def untold(self, container: PodContainer) -> tuple[str, ...]:
        """The claims that a container has, by the node agent's word, and of which the driver has not told."""
        named = self._annotated.claims_of(container)
        return tuple(dict.fromkeys(each.full_name for each in named if self.claims.find(each.full_name) is None))

    def overruled(self, terms: Mapping[PodContainer, SomeTerms]) -> list[Overruled]:
        """What of the containers' annotations does not count because their claims say otherwise."""
        found: dict[tuple[PodContainer, str], Overruled] = {}
        for container, annotated in terms.items():
            said = annotated.said()
            for claim, each in self._claimed(container) if said else ():
                for name, value in each.terms.said().items():
                    if said.get(name, value) != value:
                        new = Overruled(container, name, claim.full_name, _words(name, value))
                        found.setdefault((container, name), new)
        return list(found.values())

    def _claimed(self, container: PodContainer) -> list[tuple[ResourceClaim, ClaimedDevice]]:
        """What has terms of a container's claims, in the order of their names."""
        named = sorted(self._annotated.claims_of(container), key=lambda each: (each.full_name, each.request))
        told = ((self.claims.find(each.full_name), each.request) for each in named)
        return [
            (claim, device)
            for claim, request in told
            if claim is not None
            for device in claim.devices
            if device.is_of(request) and device.terms.said()
        ]


def _words(name: str, value: object) -> str:
    match name, value:
        case "memory_limit_bytes", int(size):
            return display.size(size)
        case "memory_request_bytes", _:
            # How large that is changes with the GPU's other claims: it would be news each time.
            return "its part of the GPU's memory"
        case "compute_limit", float(share):
            return f"{share * 100:g}%"
        case "priority", _:
            return str(getattr(value, "name", value)).lower()
        case "weight", float(weight):
            return f"{weight:g}"
        case _:
            return str(value)
