"""Which ResourceClaims each container of a pod has, from the API's document. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, order=True)
class ContainerClaim:
    """A claim in the pod's namespace."""

    name: str
    request: str = ""
    """Of it only what this request has; empty: all."""


def claims_of(spec: dict[str, Any], status: dict[str, Any]) -> Mapping[str, tuple[ContainerClaim, ...]]:
    """By container, of those that have any; the empty name: of the whole pod.

    A pod does not say which driver serves a claim: all are here. One that is still to be made from its template has no
    name yet. KeyError, TypeError or AttributeError for what is no pod.
    """
    made = {str(each["name"]): each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()}
    names = {
        str(each["name"]): each.get("resourceClaimName") or made.get(str(each["name"]))
        for each in spec.get("resourceClaims") or ()
    }
    found: dict[str, set[ContainerClaim]] = {}
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        for each in (container.get("resources") or {}).get("claims") or ():
            if name := names.get(str(each["name"])):
                claim = ContainerClaim(str(name), str(each.get("request") or ""))
                found.setdefault(str(container["name"]), set()).add(claim)
    if extended := status.get("extendedResourceClaimStatus"):
        for each in extended.get("requestMappings") or ():
            claim = ContainerClaim(str(extended["resourceClaimName"]), str(each["requestName"]))
            found.setdefault(str(each["containerName"]), set()).add(claim)
    if found:
        found[""] = set().union(*found.values())
    return {container: tuple(sorted(claims)) for container, claims in found.items()}
