"""Which containers hold virtual devices, and which of them have no client. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nvshare.scheduler.pods.identity import Identity

_VIRTUAL_DEVICE = re.compile(r"((?:GPU|MIG)-[0-9a-fA-F-]{36})__[0-9]+")
"""The form of the ids that nvshare's device plugin gives, whatever its resource is called; others' differ."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The virtual devices of one GPU that one container holds."""

    namespace: str
    pod: str
    container: str
    device: str
    """The GPU's UUID."""
    virtual_device_ids: tuple[str, ...]


def holdings_of(namespace: str, pod: str, container: str, device_ids: Iterable[str]) -> tuple[Holding, ...]:
    """What a container holds, one for each GPU, of all the device ids that it was given; other plugins' don't count."""
    by_device: dict[str, list[str]] = {}
    for device_id in sorted(device_ids):
        if match := _VIRTUAL_DEVICE.fullmatch(device_id):
            by_device.setdefault(match[1], []).append(device_id)
    return tuple(Holding(namespace, pod, container, device, tuple(ids)) for device, ids in by_device.items())


def without_client(holdings: Iterable[Holding], clients: Iterable[tuple[str, Identity]]) -> dict[str, list[Holding]]:
    """The holdings that no client uses, by device; ``clients``: the device and the identity of each.

    What is unknown of a client (its container, or a namespace that it did not tell) counts as a match.
    """
    present = {(device, identity.namespace, identity.pod, identity.container) for device, identity in clients}
    missing: dict[str, list[Holding]] = {}
    for each in holdings:
        fits = (
            (each.device, namespace, each.pod, container)
            for namespace in (each.namespace, "")
            for container in (each.container, "")
        )
        if present.isdisjoint(fits):
            missing.setdefault(each.device, []).append(each)
    return missing
