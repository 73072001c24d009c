"""The objects of the API: made-up nodes, what drivers say of their GPUs, and pods that claim memory. Pure.

What nvshare says is made by the driver's own modules.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from nvshare.admin import admin_pb2
from nvshare.deviceplugin.claims import slices
from nvshare.deviceplugin.claims.attributes import attributes
from nvshare.deviceplugin.claims.capacities import Capacities
from nvshare.deviceplugin.devices import Gpu, GpuFacts
from nvshare.deviceplugin.gpus import pci
from nvshare.dra import DRIVER

Document = dict[str, Any]

NAMESPACE: Final = "default"
WHOLE: Final = "gpu.example.com"
"""The driver of whole devices, and its class."""
MIB: Final = 1 << 20
GIB: Final = 1 << 30
SIZES: Final = (2, 4, 8, 16)
"""What claims ask for, in GiB."""
_COUNTS: Final = (2, 4, 8)
_CONTEXT_BYTES: Final = 640 * MIB
"""What the scheduler assumes for a context on these GPUs."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of GPU."""

    mebibytes: int
    reserve_mebibytes: int
    """What stays free where memory swaps."""
    facts: GpuFacts


def _kind(mebibytes: int, product: str, brand: str, architecture: str, capability: str) -> Kind:
    facts = GpuFacts(product, brand, architecture, capability, "580.159.04", "13.0")
    return Kind(mebibytes, max(512, mebibytes // 50), facts)


KINDS: Final = (
    _kind(23034, "NVIDIA L4", "Nvidia", "Ada Lovelace", "8.9"),
    _kind(46068, "NVIDIA L40S", "Nvidia", "Ada Lovelace", "8.9"),
    _kind(81559, "NVIDIA H100 80GB HBM3", "Nvidia", "Hopper", "9.0"),
)


@dataclass(frozen=True, slots=True)
class MadeUpNode:
    """A node that is not there, with GPUs of one kind."""

    name: str
    kind: Kind
    gpus: tuple[Gpu, ...]
    virtual_devices: int
    """Of each GPU."""

    def status(self, dice: random.Random) -> admin_pb2.Status:
        """What the node's scheduler tells; who else uses the GPUs has a little more or less each time."""
        told = admin_pb2.Status(knows_allocations=True)
        for gpu in self.gpus:
            told.devices.add(
                uuid=gpu.uuid,
                total_bytes=self.kind.mebibytes * MIB,
                foreign_bytes=dice.randrange(8 * MIB),
                swap_reserve_bytes=self.kind.reserve_mebibytes * MIB,
                assumed_context_bytes=_CONTEXT_BYTES,
            )
        return told

    @property
    def shares(self) -> dict[str, int]:
        """How many virtual devices each GPU has."""
        return {gpu.uuid: self.virtual_devices for gpu in self.gpus}

    def devices(self, capacities: Capacities) -> list[Document]:
        """As the driver offers them."""
        offered = []
        for gpu in self.gpus:
            capacity = capacities.of(gpu.uuid)
            if capacity is not None:
                offered.append(slices.Offered(gpu.uuid, capacity, attributes(gpu, *_place(gpu))))
        return slices.devices(offered)


def nodes(count: int, virtual_devices: int, dice: random.Random) -> list[MadeUpNode]:
    """So many, with 2, 4 or 8 GPUs each, of three kinds."""
    return [_node(number, KINDS[number % len(KINDS)], dice.choice(_COUNTS), virtual_devices) for number in range(count)]


def _node(number: int, kind: Kind, gpus: int, virtual_devices: int) -> MadeUpNode:
    name = f"node-{number:04}"
    made = tuple(
        Gpu(
            f"GPU-{number:08x}-{ordinal:04x}-2222-3333-444444444444",
            str(ordinal),
            bus_id=_bus(ordinal),
            facts=kind.facts,
        )
        for ordinal in range(gpus)
    )
    return MadeUpNode(name, kind, made, virtual_devices)


def _uuid(number: int, ordinal: int) -> str:
    return f"GPU-{number:08x}-{ordinal:04x}-2222-3333-444444444444"


def _bus(ordinal: int) -> str:
    return f"00000000:{0x10 + 0x10 * ordinal:02X}:00.0"


def _place(gpu: Gpu) -> tuple[str | None, str, int]:
    """Where it is: address, root complex and NUMA node."""
    ordinal = int(gpu.index)
    return pci.address(gpu), f"pci0000:{0x10 + 0x10 * ordinal:02x}", ordinal // 4


def node(name: str, now: str) -> Document:
    """As kubelet registers it."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {**ready(now), **dict.fromkeys(("capacity", "allocatable"), _ROOM)},
    }


_ROOM: Final = {"cpu": "128", "memory": "1Ti", "pods": "250"}


def ready(now: str) -> Document:
    """The part of a node's status that kubelet renews."""
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
    return {"conditions": [condition]}


def whole_slice(of: slices.Node, gpus: Sequence[Gpu], kind: Kind, each: int) -> Document:
    """A node's GPUs as devices that one claim has to itself, each of them so many times."""
    devices = [
        {
            "name": f"gpu-{number}-{gpu.index}",
            "attributes": attributes(gpu, *_place(gpu)),
            "capacity": {"memory": {"value": f"{kind.mebibytes}Mi"}},
        }
        for number in range(each)
        for gpu in gpus
    ]
    made = slices.resource_slice(of, devices, 1, None)
    made["spec"]["driver"] = WHOLE
    made["metadata"]["name"] = f"{of.name}-{WHOLE}"
    return made


def size(stored: Document) -> int:
    """Of an object, in bytes, without who wrote which field: the server keeps that beside it."""
    metadata = {key: value for key, value in stored["metadata"].items() if key != "managedFields"}
    return len(json.dumps({**stored, "metadata": metadata}, separators=(",", ":")))


def device_class(driver: str) -> Document:
    """Of a driver's GPUs, as the chart makes it."""
    expression = f"device.driver == '{driver}' && device.attributes['{driver}'].type == 'gpu'"
    return {
        "apiVersion": slices.API_VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def claim(name: str, driver: str, gibibytes: int) -> Document:
    """Of one GPU, by nvshare of so much of its memory."""
    exactly: Document = {"deviceClassName": driver}
    if driver == DRIVER:
        exactly["capacity"] = {"requests": {"memory": f"{gibibytes}Gi"}}
    return {
        "apiVersion": slices.API_VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def pod(name: str) -> Document:
    """One that has the claim of its name."""
    container = {"name": "it", "image": "it", "resources": {"claims": [{"name": "gpu"}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]},
    }
