"""What kubelet gave to which containers, and which of them have no client. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nvshare.dra import DRIVER
from nvshare.scheduler.pods.identity import Identity, Source

_CLAIMED_DEVICE = re.compile(r"(gpu|mig)(-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""How it calls the devices that it gives: by their UUIDs in lower case."""
_GPU = re.compile(r"((?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?![0-9a-fA-F]).*")
"""The form of the ids of plugins that give GPUs by their UUIDs; what follows tells parts of one GPU apart."""
_VIRTUAL_DEVICE = re.compile(r"((?:GPU|MIG)-[0-9a-fA-F-]{36})__[0-9]+")
"""The form of the ids that nvshare's device plugin gives, whatever its resource is called; others' differ."""
_GIVES_GPUS = re.compile(r"nvidia\.com/(?:gpu|mig-).*|gpu\.nvidia\.com")
"""NVIDIA's names of resources, and of drivers of claims, that give GPUs; not all say which ones."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one container holds of one GPU."""

    namespace: str
    pod: str
    container: str
    device: str
    """The GPU's UUID."""
    virtual_device_ids: tuple[str, ...]
    resource: str = ""
    """As another plugin calls it; empty: virtual devices of nvshare's, or a claim of its driver."""
    claim: str = ""
    """NAMESPACE/NAME of the claim by which it is held; empty: virtual devices."""
    shares: int = 0
    """Of the GPU, that the whole claim has; 0: none, or not known."""
    ending: bool = False
    """Its pod is to end, or has ended: it is free soon."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One container that kubelet lists, and the GPUs that it was given."""

    namespace: str
    pod: str
    container: str
    holdings: tuple[Holding, ...] = ()
    """Of nvshare's virtual devices and of its driver's claims, one for each GPU, and for each claim of it."""
    others: tuple[Holding, ...] = ()
    """Of other plugins' devices, one for each GPU and resource."""
    is_clear: bool = True
    """False: it may have been given GPUs of which kubelet does not say which ones they are."""
    claims: tuple[tuple[str, str], ...] = ()
    """The claims that it has, of any driver: NAMESPACE/NAME, and the driver."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A device that a container was given by a claim."""

    claim: str
    """NAMESPACE/NAME"""
    driver: str
    device: str
    """As the driver calls it."""


def listed(
    namespace: str, pod: str, container: str, devices: Mapping[str, Iterable[str]], claimed: Iterable[Claimed]
) -> Listed:
    """A container with the ids of its devices by resource, and what it was given by claims."""
    claimed = tuple(claimed)
    others: list[Holding] = []
    is_clear = not any(_GIVES_GPUS.fullmatch(each.driver) for each in claimed)
    for resource, ids in sorted(devices.items()):
        by_device: dict[str, list[str]] = {}
        for device_id in sorted(ids):
            if _VIRTUAL_DEVICE.fullmatch(device_id):
                continue
            if match := _GPU.fullmatch(device_id):
                by_device.setdefault(match[1], []).append(device_id)
            elif _GIVES_GPUS.fullmatch(resource):
                is_clear = False
        others += [Holding(namespace, pod, container, gpu, tuple(ids), resource) for gpu, ids in by_device.items()]
    holdings = holdings_of(namespace, pod, container, (each for ids in devices.values() for each in ids))
    ours = sorted({(each.claim, gpu) for each in claimed if (gpu := _claimed_gpu(each))})
    by_claims = tuple(Holding(namespace, pod, container, gpu, (), claim=claim) for claim, gpu in ours)
    claims = tuple(sorted({(each.claim, each.driver) for each in claimed}))
    return Listed(namespace, pod, container, (*holdings, *by_claims), tuple(others), is_clear, claims)


def _claimed_gpu(claimed: Claimed) -> str:
    """The UUID of a GPU that nvshare's driver gave; empty: it is none."""
    match = _CLAIMED_DEVICE.fullmatch(claimed.device) if claimed.driver == DRIVER else None
    return "" if match is None else f"{match[1].upper()}{match[2]}"


def holdings_of(namespace: str, pod: str, container: str, device_ids: Iterable[str]) -> tuple[Holding, ...]:
    """What a container holds, one for each GPU, of all the device ids that it was given; other plugins' don't count."""
    by_device: dict[str, list[str]] = {}
    for device_id in sorted(device_ids):
        if match := _VIRTUAL_DEVICE.fullmatch(device_id):
            by_device.setdefault(match[1], []).append(device_id)
    return tuple(Holding(namespace, pod, container, device, tuple(ids)) for device, ids in by_device.items())


def given_devices(containers: Sequence[Listed], identity: Identity) -> frozenset[str] | None:
    """The GPUs that a client with this identity may use; None: that can't be told from these containers.

    It can be told of containers in which kubelet gave out virtual devices, or GPUs by claims. A container that has none
    of them may use what its pod has. Kubelet lists no init containers, and none that came into the pod later: their
    GPUs are not known.
    """
    if identity.source is not Source.KERNEL or not identity.namespace:
        return None
    of_pod = [each for each in containers if (each.namespace, each.pod) == (identity.namespace, identity.pod)]
    if identity.container:
        own = [each for each in of_pod if each.container == identity.container]
        if not own:
            return None
        if any(each.holdings for each in own):
            of_pod = own
    if not any(each.holdings for each in of_pod) or not all(each.is_clear for each in of_pod):
        return None
    return frozenset(held.device for each in of_pod for held in (*each.holdings, *each.others))


def given_twice(containers: Iterable[Listed]) -> dict[str, list[Holding]]:
    """What other plugins gave of the GPUs of which containers hold virtual devices too, by device."""
    containers = list(containers)
    shared = {held.device for each in containers for held in each.holdings}
    found: dict[str, list[Holding]] = {}
    for other in (held for each in containers for held in each.others):
        if other.device in shared:
            found.setdefault(other.device, []).append(other)
    return found


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
