"""GPUs, the virtual devices that stand for them, and the snapshot of both that kubelet gets. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

MAX_VIRTUAL_DEVICES = 1000
RESOURCE_NAME = "nvshare.com/gpu"
"""What pods ask for unless the settings say otherwise."""

_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z]+(?:-[0-9A-Za-z]+)*")
_INDEX = re.compile(r"\d{1,4}(?::\d{1,4})?")
_ORDINAL = re.compile(r"[1-9]\d{0,3}")
_SEPARATOR = "__"


class BadDeviceIdError(Exception):
    """The text is not the id of a virtual device."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What a GPU is, and what its driver can do, in words; None: NVML does not say it."""

    product_name: str | None = None
    brand: str | None = None
    architecture: str | None = None
    compute_capability: str | None = None
    driver_version: str | None = None
    cuda_driver_version: str | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU or MIG device, as NVML shows it or as the environment names it."""

    uuid: str
    index: str
    """Its number in NVML's order; "0:1" is the second MIG device of GPU 0."""
    parent_uuid: str | None = None
    """Only for a MIG device: its GPU's UUID. NVML's events name the device by it and by the two instances."""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    minor: int | None = None
    """The number in the name of its device node, of a MIG device its GPU's; None: NVML does not say it."""
    bus_id: str | None = None
    """Where it is on the PCI bus, as NVML writes it, of a MIG device its GPU's; None: NVML does not say it."""
    mig_profile: str | None = None
    """How much of its GPU a MIG device is, as in 1g.10gb+me; None: it is none, or NVML does not say it."""
    facts: GpuFacts = GpuFacts()
    """Of a MIG device its GPU's."""

    @property
    def is_mig(self) -> bool:
        """Whether it is a MIG device. Without NVML only the UUID says it."""
        return self.parent_uuid is not None or self.uuid.startswith("MIG-")


@dataclass(frozen=True, slots=True)
class VirtualDevice:
    """One share of a GPU: what kubelet counts and allocates. Ordinals begin at 1."""

    uuid: str
    ordinal: int

    @property
    def id(self) -> str:
        return f"{self.uuid}{_SEPARATOR}{self.ordinal}"


@dataclass(frozen=True, slots=True)
class Offer:
    """One GPU as it is offered to kubelet."""

    uuid: str
    virtual_devices: int
    """How many."""
    problem: str | None = None
    """What is wrong with the GPU or the node; None: nothing."""
    nodes: tuple[Path, ...] = ()
    """The device nodes that its containers are given; none where the runtime alone sees to that."""
    numa_node: int | None = None
    """Near which of the machine's memories it is, as kubelet is told; None: it is not told."""
    resource_name: str = RESOURCE_NAME
    """What pods ask for to get a share of it."""
    withheld: frozenset[int] = frozenset()
    """The ordinals that nobody holds and nobody is to be given, because there is no memory for more."""

    def devices(self) -> Iterator[VirtualDevice]:
        return (VirtualDevice(self.uuid, ordinal) for ordinal in range(1, self.virtual_devices + 1))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is offered at one moment, in a stable order of GPUs."""

    offers: tuple[Offer, ...] = ()
    _by_uuid: Mapping[str, Offer] = field(init=False, repr=False, compare=False)
    _position: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_uuid", {offer.uuid: offer for offer in self.offers})
        object.__setattr__(self, "_position", {offer.uuid: place for place, offer in enumerate(self.offers)})

    def total(self, uuid: str) -> int:
        """How many virtual devices the GPU has; 0 for one that is not offered."""
        offer = self._by_uuid.get(uuid)
        return 0 if offer is None else offer.virtual_devices

    def offered(self, uuid: str) -> int:
        """How many of them there is memory for."""
        offer = self._by_uuid.get(uuid)
        return 0 if offer is None else offer.virtual_devices - len(offer.withheld)

    def nodes(self, uuid: str) -> tuple[Path, ...]:
        """The device nodes of a GPU."""
        offer = self._by_uuid.get(uuid)
        return () if offer is None else offer.nodes

    def position(self, uuid: str) -> int:
        """The GPU's place in the stable order; one that is not offered comes last."""
        return self._position.get(uuid, len(self.offers))

    def of(self, resource_name: str) -> Snapshot:
        """What is offered under this name."""
        return Snapshot(tuple(offer for offer in self.offers if offer.resource_name == resource_name))

    @property
    def resource_names(self) -> tuple[str, ...]:
        """Each name under which there is an offer, once."""
        return tuple(dict.fromkeys(offer.resource_name for offer in self.offers))

    def __contains__(self, device: VirtualDevice) -> bool:
        return 1 <= device.ordinal <= self.total(device.uuid)

    def in_order(self, uuids: Iterable[str]) -> tuple[str, ...]:
        """Each UUID once, in the stable order."""
        return tuple(sorted(set(uuids), key=lambda uuid: (self.position(uuid), uuid)))


def is_uuid(text: str) -> bool:
    """Whether this is how the driver writes the UUID of a GPU or MIG device."""
    return _UUID.fullmatch(text) is not None


def is_index(text: str) -> bool:
    """Whether this is a GPU's number, or a MIG device's as ``GPU:DEVICE``."""
    return _INDEX.fullmatch(text) is not None


def uuid_part(device_id: str) -> str:
    """What stands before the ordinal, whether it is a UUID or not; empty when there is no ordinal."""
    return device_id.rpartition(_SEPARATOR)[0]


def parse(device_id: str) -> VirtualDevice:
    """The virtual device of an id ``UUID__ORDINAL``; raises BadDeviceIdError for any other text."""
    uuid, separator, ordinal = device_id.rpartition(_SEPARATOR)
    if not separator or not is_uuid(uuid) or _ORDINAL.fullmatch(ordinal) is None:
        raise BadDeviceIdError(f"{device_id!r} is not of the form UUID__ORDINAL")
    return VirtualDevice(uuid, int(ordinal))
