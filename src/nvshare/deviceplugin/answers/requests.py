"""What a container may ask for: the operator's rules, and the texts of refusals. Pure.

kubelet puts the text of a refusal into the pod's events: it says what was asked, why that is refused, what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from nvshare.deviceplugin.devices import BadDeviceIdError, Snapshot, VirtualDevice, parse


class Fault(Enum):
    """What kind of wrong a request is; the servicer has a gRPC code for each."""

    MALFORMED = auto()
    UNKNOWN_DEVICE = auto()
    AGAINST_RULES = auto()


class RequestError(Exception):
    """kubelet asked for what cannot be given."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Rules:
    """The operator's limits on one container's request."""

    resource_name: str
    require_distinct: bool = False
    fail_requests_greater_than_one: bool = False

    def check_size(self, size: int) -> None:
        """Raises RequestError when a container may not have this many virtual devices."""
        if self.fail_requests_greater_than_one and size > 1:
            raise RequestError(
                Fault.AGAINST_RULES,
                f"{self.resource_name}: {size} requested, but this node gives a container at most 1 "
                "(--fail-requests-greater-than-one): request 1",
            )

    def check_distinct(self, size: int, gpus: int, where: str) -> None:
        """Raises RequestError when ``size`` virtual devices must lie on as many GPUs and only ``gpus`` can be had."""
        if self.require_distinct and size > gpus:
            raise RequestError(
                Fault.AGAINST_RULES,
                f"{self.resource_name}: {size} requested, each on a GPU of its own (--require-distinct), "
                f"but {where}: request at most {gpus}, or use a node with more GPUs",
            )


def known_devices(ids: Sequence[str], snapshot: Snapshot) -> tuple[VirtualDevice, ...]:
    """The virtual devices of these ids; raises RequestError naming the first that this node does not offer."""
    return tuple(_known(device_id, snapshot) for device_id in ids)


def _known(device_id: str, snapshot: Snapshot) -> VirtualDevice:
    try:
        device = parse(device_id)
    except BadDeviceIdError as error:
        raise RequestError(Fault.MALFORMED, f"{error}: another plugin's device?") from error
    if device in snapshot:
        return device
    total = snapshot.total(device.uuid)
    if total:
        why = f"GPU {device.uuid} has virtual devices 1 to {total} only"
    else:
        offered = ", ".join(offer.uuid for offer in snapshot.offers) or "none"
        why = f"this node has no GPU {device.uuid} (it offers: {offered})"
    raise RequestError(
        Fault.UNKNOWN_DEVICE,
        f"virtual device {device_id} is unknown: {why}. The set of GPUs or the number of virtual devices "
        "(--virtual-devices, in the chart virtualDevices) changed: delete the pod so that it is placed anew",
    )
