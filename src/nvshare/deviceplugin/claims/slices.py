"""The ResourceSlice in which the cluster's scheduler sees a node's GPUs, as a document of the API. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nvshare.deviceplugin.claims import capacity
from nvshare.deviceplugin.claims.capacity import Capacity
from nvshare.dra import DRIVER

Document = dict[str, Any]

UNHEALTHY = f"{DRIVER}/unhealthy"
"""The taint of a GPU that no new claim is to get."""
API_VERSION = "resource.k8s.io/v1"
PATH = f"/apis/{API_VERSION}/resourceslices"
MOST_DEVICES = 128
"""The API takes no more in a slice."""
MOST_WITH_TAINTS = 64
"""And of these no more where any of them has a taint."""
_LONGEST_VALUE = 63


@dataclass(frozen=True, slots=True)
class Node:
    """The node whose GPUs these are: a slice goes with it."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Offered:
    """A GPU as claims can have it."""

    uuid: str
    capacity: Capacity
    attributes: Mapping[str, Document]
    problem: str | None = None
    """Why no new claim is to get it; None: nothing is wrong."""


def claim_path(namespace: str, name: str) -> str:
    """Where the API has a ResourceClaim."""
    return f"/apis/{API_VERSION}/namespaces/{namespace}/resourceclaims/{name}"


def device_name(uuid: str) -> str:
    """As slices and claims call a GPU."""
    return uuid.lower()


def devices(offered: Sequence[Offered]) -> list[Document]:
    """The devices of a slice, at most ``MOST_DEVICES``. Of more than may have taints the unhealthy are left out."""
    listed = [each for each in offered if each.problem is None or len(offered) <= MOST_WITH_TAINTS]
    return [_device(each) for each in listed[:MOST_DEVICES]]


def slice_name(node: str) -> str:
    """One a node: two drivers can't both make it."""
    return f"{node}-{DRIVER}"


def resource_slice(node: Node, listed: Sequence[Document], generation: int, version: str | None) -> Document:
    """The slice with these devices; ``version``: of the one that it replaces; None: it is a new one."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": True}
    metadata: Document = {"name": slice_name(node.name), "ownerReferences": [owner]}
    if version is not None:
        metadata["resourceVersion"] = version
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": metadata,
        "spec": {
            "driver": DRIVER,
            "nodeName": node.name,
            "pool": {"name": node.name, "generation": generation, "resourceSliceCount": 1},
            "devices": list(listed),
        },
    }


def canonical(listed: Sequence[Document]) -> str:
    """A text that is the same for devices that mean the same: when a taint came is the server's word."""
    told = [{**each, "taints": [_without_time(taint) for taint in each.get("taints") or ()]} for each in listed]
    return json.dumps(told, sort_keys=True)


def is_shared(listed: Sequence[Document]) -> bool:
    """Whether the server has kept that several claims may have a device: one that does not know it drops it."""
    return all(each.get("allowMultipleAllocations") for each in listed)


def keeps_taints(listed: Sequence[Document], stored: Sequence[Document]) -> bool:
    """Whether it has kept the taints."""
    return sum(map(_taints, listed)) == sum(map(_taints, stored))


def _device(each: Offered) -> Document:
    told: Document = {
        "name": device_name(each.uuid),
        "attributes": dict(each.attributes),
        "capacity": capacity.document(each.capacity),
        "allowMultipleAllocations": True,
    }
    if each.problem is not None:
        told["taints"] = [{"key": UNHEALTHY, "value": slug(each.problem), "effect": "NoSchedule"}]
    return told


def slug(reason: str) -> str:
    """A reason in the form of a label's value."""
    words = re.sub(r"[^a-z0-9]+", "-", reason.lower())
    return words.strip("-")[:_LONGEST_VALUE].strip("-") or "unknown"


def _taints(each: Document) -> int:
    return len(each.get("taints") or ())


def _without_time(taint: Document) -> Document:
    return {key: value for key, value in taint.items() if key != "timeAdded"}
