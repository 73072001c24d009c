"""Messages of the admin API about ResourceClaims: what they say, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nvshare import display
from nvshare.admin import admin_pb2
from nvshare.container_names import claim_of
from nvshare.device_uuid import device_bytes
from nvshare.scheduler.accounts import Overruled
from nvshare.scheduler.api.terms_message import terms_of
from nvshare.scheduler.commands import InvalidCommandError
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot
from nvshare.scheduler.recovery.annotated import NamedClaim, PodContainer
from nvshare.scheduler.recovery.resource_claims import ClaimedDevice, ResourceClaim
from nvshare.scheduler.some_terms import SomeTerms


def claims_of(request: admin_pb2.SetClaimsRequest, device: Callable[[str], str]) -> tuple[ResourceClaim, ...]:
    """What the driver tells. ``device``: what a device is called here that is called so there.

    InvalidCommandError names the claim, and the value that is not allowed.
    """
    uids: set[str] = set()
    claims = []
    for each in request.claims:
        if not (each.uid and each.namespace and each.name):
            raise InvalidCommandError(f"claim {each.namespace}/{each.name}: uid {each.uid!r}: each needs all three")
        if each.uid in uids:
            raise InvalidCommandError(f"claim {each.namespace}/{each.name}: uid {each.uid!r} is there twice")
        uids.add(each.uid)
        try:
            claims.append(
                ResourceClaim(each.uid, each.namespace, each.name, tuple(_device(one, device) for one in each.devices))
            )
            _check(claims[-1])
        except InvalidCommandError as error:
            raise InvalidCommandError(f"claim {each.namespace}/{each.name}: {error}") from None
    return tuple(claims)


def named_claims(request: admin_pb2.SetAnnotatedTermsRequest) -> dict[PodContainer, tuple[NamedClaim, ...]]:
    """The claims of the containers that have any."""
    return {
        PodContainer(each.pod_uid, each.container): tuple(
            NamedClaim(f"{claim.namespace}/{claim.name}", claim.request) for claim in each.claims
        )
        for each in request.containers
        if each.claims
    }


def overruled_message(overruled: Overruled) -> admin_pb2.Overruled:
    """An annotation that does not count."""
    return admin_pb2.Overruled(
        pod_uid=overruled.container.pod_uid,
        container=overruled.container.name,
        field=overruled.field,
        claim=overruled.claim,
        counts=overruled.counts,
    )


def claimed_message(snapshot: DeviceSnapshot, claims: Iterable[ResourceClaim]) -> admin_pb2.ClaimedMemory | None:
    """What claims have of a device; None: nothing."""
    parts = [[each for each in claim.on(snapshot.device) if not each.is_admin] for claim in claims]
    # What a claim may have of a GPU all its entries for that say.
    terms = [each[0].terms for each in parts if each]
    clients = [client for client in snapshot.clients if claim_of(client.container)]
    if not terms and not clients:
        return None
    return admin_pb2.ClaimedMemory(
        promised_bytes=sum(each.memory_limit_bytes or 0 for each in terms),
        requested_bytes=sum(each.memory_request_bytes or 0 for each in terms),
        consumed_bytes=sum(each.memory_bytes for entries in parts for each in entries),
        shares=sum(each.shares for entries in parts for each in entries),
        resident_bytes=sum(map(_resident_bytes, clients)),
    )


def _resident_bytes(client: ClientSnapshot) -> int:
    if client.swap is None:
        return (client.footprint_bytes or 0) + client.pinned_bytes
    return client.swap.resident_bytes + client.swap.fixed_bytes + client.pinned_bytes


def _device(told: admin_pb2.ClaimedDevice, device: Callable[[str], str]) -> ClaimedDevice:
    try:
        device_bytes(told.device_uuid)
        terms = terms_of(told)
    except (ValueError, InvalidCommandError) as error:
        raise InvalidCommandError(f"request {told.request!r}: {error}") from None
    name = device(told.device_uuid)
    return ClaimedDevice(told.request, name, told.memory_bytes, told.shares, told.admin_access, terms)


def _check(claim: ResourceClaim) -> None:
    terms: dict[str, SomeTerms] = {}
    for each in claim.devices:
        if each.is_admin:
            continue
        said = terms.setdefault(each.device, each.terms)
        if said != each.terms:
            raise InvalidCommandError(f"device {each.device}: its requests say {said.said()} and {each.terms.said()}")
        limit, request = said.memory_limit_bytes, said.memory_request_bytes
        if limit is not None and request is not None and request > limit:
            asked, most = display.size(request), display.size(limit)
            raise InvalidCommandError(
                f"device {each.device}: a memory request of {asked} is above the memory limit of {most}"
            )
