"""What a claim has of this node's GPUs, read from its ResourceClaim. Pure.

The text of a refusal becomes an event of the pod: it says what is wrong, and what is allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from nvshare import display
from nvshare.deviceplugin.claims.quantity import whole
from nvshare.deviceplugin.claims.terms import NONE, WRITTEN, TermsError, terms_of
from nvshare.dra import DRIVER
from nvshare.terms_texts import Terms

Document = Mapping[str, Any]

MEMORY: Final = "memory"
"""The capacity of a device that is counted in bytes."""
SHARES: Final = "shares"
_EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
_OF_CONTAINER: Final = "-request-"
"""kube-scheduler calls the requests for extended resources ``container-0-request-0`` and so on."""


class ClaimError(Exception):
    """A claim can't be prepared; the text says why."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one request of a claim has of one GPU."""

    device_name: str
    """The device's in the ResourceSlice."""
    uuid: str
    memory_bytes: int
    """What was counted for it; 0 with admin access."""
    shares: int
    share_id: str | None = None
    admin_access: bool = False
    terms: Terms = NONE
    """Those of the claim on this GPU, the same for all its requests there: the limit of memory is that of them all."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a claim, and what it was given."""

    name: str
    """Without that of a subrequest, as containers name it."""
    devices: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A claim that is prepared on this node."""

    uid: str
    namespace: str
    name: str
    requests: tuple[Request, ...]
    extended: bool = False
    """Kubernetes made it for an extended resource: it says no terms."""

    @property
    def full_name(self) -> str:
        """As people and the scheduler's status write it."""
        return f"{self.namespace}/{self.name}"

    def devices(self) -> Iterator[tuple[str, Share]]:
        """All that it has, with the request's name."""
        return ((request.name, device) for request in self.requests for device in request.devices)

    @property
    def uuids(self) -> tuple[str, ...]:
        """Each of its GPUs once, in the order of its requests."""
        return tuple(dict.fromkeys(device.uuid for _, device in self.devices()))

    def visible_with(self, request: str) -> tuple[str, ...]:
        """The GPUs that a container sees which has this request: all of the claim, in the same order.

        Of what Kubernetes made for an extended resource only those that its container asked for, by how its requests
        are called. Only init containers may have requests of others as well: of what they use after each other.
        """
        container = request.partition(_OF_CONTAINER)[0]
        seen = (
            device.uuid
            for name, device in self.devices()
            if not self.extended or name.partition(_OF_CONTAINER)[0] == container
        )
        return tuple(dict.fromkeys(seen))

    def consumed(self) -> Counter[str]:
        """What it consumes of the memory of each GPU."""
        of_gpu = Counter[str]()
        for _, device in self.devices():
            of_gpu[device.uuid] += device.memory_bytes
        return of_gpu

    def limits(self) -> dict[str, int | None]:
        """What it may have of each GPU in all; None: as much as there is."""
        consumed = self.consumed()
        limits: dict[str, int | None] = dict.fromkeys(self.uuids)
        for _, device in () if self.extended else self.devices():
            if not device.admin_access:
                limits[device.uuid] = device.terms.memory_limit_bytes or consumed[device.uuid]
        return limits


@dataclass(frozen=True, slots=True)
class _Result:
    """What was allocated for a request, and what the configuration says of that request."""

    request: str
    share: Share

    @property
    def main_request(self) -> str:
        return self.request.partition("/")[0]


def record_of(claim: Document, uid: str, node: str, offered: Collection[str]) -> Record:
    """What the ResourceClaim says that the claim of this uid has on this node; ClaimError.

    ``offered``: the UUIDs of the GPUs that this node offers.
    """
    metadata = claim["metadata"]
    if metadata["uid"] != uid:
        raise ClaimError(f"the claim was deleted and made anew: its uid is {metadata['uid']}, and {uid} was asked for")
    allocation = claim.get("status", {}).get("allocation")
    if allocation is None:
        raise ClaimError("nothing is allocated to the claim")
    devices = allocation.get("devices", {})
    extended = metadata.get("annotations", {}).get(_EXTENDED) == "true"
    by_name = {uuid.lower(): uuid for uuid in offered}
    found = [each for each in devices.get("results", ()) if each["driver"] == DRIVER]
    if not found:
        raise ClaimError(f"nothing of driver {DRIVER} is allocated to the claim")
    results = [_Result(each["request"], _share(each, node, by_name)) for each in found]
    if not extended:
        results = _with_terms(results, tuple(_configurations(devices.get("config", ()))))
    names = dict.fromkeys(result.main_request for result in results)
    return Record(
        uid=uid,
        namespace=metadata["namespace"],
        name=metadata["name"],
        requests=tuple(
            Request(name, tuple(result.share for result in results if result.main_request == name)) for name in names
        ),
        extended=extended,
    )


def is_of(claim: Document, uid: str, node: str) -> bool:
    """Whether a ResourceClaim is the one of this uid, and has something on this node."""
    allocation = claim.get("status", {}).get("allocation") or {}
    results = allocation.get("devices", {}).get("results", ())
    return claim["metadata"]["uid"] == uid and any(
        result["driver"] == DRIVER and result["pool"] == node for result in results
    )


def _share(result: Document, node: str, by_name: Mapping[str, str]) -> Share:
    device, request = result["device"], result["request"]
    if result["pool"] != node:
        raise ClaimError(f"request {request}: device {device} is of node {result['pool']}; this one is {node}")
    if (uuid := by_name.get(device)) is None:
        known = ", ".join(by_name) or "none"
        raise ClaimError(f"request {request}: this node does not offer device {device} now; it offers {known}")
    if result.get("adminAccess"):
        return Share(device, uuid, 0, 0, result.get("shareID"), admin_access=True)
    memory_bytes, shares = (_consumed(result, capacity) for capacity in (MEMORY, SHARES))
    return Share(device, uuid, memory_bytes, shares, result.get("shareID"))


def _consumed(result: Document, capacity: str) -> int:
    text = result.get("consumedCapacity", {}).get(capacity)
    where = f"request {result['request']}: {capacity} of device {result['device']}"
    if text is None:
        raise ClaimError(
            f"{where} was not counted: kube-apiserver and kube-scheduler need the feature gate DRAConsumableCapacity"
        )
    try:
        return whole(str(text))
    except ValueError as error:
        raise ClaimError(f"{where}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Configuration:
    requests: tuple[str, ...]
    """Empty: all."""
    terms: Terms

    def is_for(self, result: _Result) -> bool:
        return not self.requests or result.request in self.requests or result.main_request in self.requests


def _configurations(config: Iterable[Document]) -> Iterator[_Configuration]:
    """Those for this driver: the class's, then the claim's; ClaimError."""
    own = (each for each in config if each.get("opaque", {}).get("driver") == DRIVER)
    for each in sorted(own, key=lambda each: bool(each.get("source") != "FromClass")):
        requests = tuple(each.get("requests", ()))
        try:
            yield _Configuration(requests, terms_of(each["opaque"].get("parameters")))
        except TermsError as error:
            whose = "DeviceClass" if each.get("source") == "FromClass" else "claim"
            which = f" for request {', '.join(requests)}" if requests else ""
            raise ClaimError(f"configuration of the {whose}{which}: {error}") from None


def _with_terms(results: list[_Result], configurations: tuple[_Configuration, ...]) -> list[_Result]:
    """The same with what the configurations say of each GPU; ClaimError where that can't be."""
    said: dict[str, dict[str, tuple[str, Any]]] = {}
    for result in results:
        terms = Terms()
        for configuration in configurations:
            if configuration.is_for(result):
                terms = configuration.terms.over(terms)
        of_gpu = said.setdefault(result.share.uuid, {})
        for field, value in {} if result.share.admin_access else terms.said().items():
            request, other = of_gpu.setdefault(field, (result.request, value))
            if other != value:
                raise ClaimError(
                    f"requests {request} and {result.request} were given the same GPU, {result.share.uuid}, and say "
                    f"different things of {WRITTEN[field]}: {other} and {value}. Let them say the same, or keep "
                    f"them apart by a constraint with distinctAttribute: {DRIVER}/uuid"
                )
    terms_by_uuid = {
        uuid: Terms(**{field: value for field, (_, value) in of_gpu.items()}) for uuid, of_gpu in said.items()
    }
    for uuid, terms in terms_by_uuid.items():
        consumed = sum(result.share.memory_bytes for result in results if result.share.uuid == uuid)
        if terms.memory_limit_bytes is not None and terms.memory_limit_bytes < consumed:
            raise ClaimError(
                f"memoryLimit of {display.size(terms.memory_limit_bytes)} is less than the claim has of GPU {uuid}: "
                f"{display.size(consumed)}. Let it be that at least, or leave it out"
            )
    return [
        result
        if result.share.admin_access
        else replace(result, share=replace(result.share, terms=terms_by_uuid[result.share.uuid]))
        for result in results
    ]
