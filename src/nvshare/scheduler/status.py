"""The admin API's picture of the scheduler, from the core's and the switchboard's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvshare.admin import admin_pb2
from nvshare.scheduler.pods.identity import Identity, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot
    from nvshare.scheduler.pods.allocations import Holding
    from nvshare.scheduler.switchboard import Member


def device_message(
    view: DeviceSnapshot, product: str, members: Mapping[int, Member], unused: Iterable[Holding]
) -> admin_pb2.Device:
    """One device, its clients and who holds it ``unused``; ``product`` is its maker's name for it, empty if unknown."""
    return admin_pb2.Device(
        uuid=view.device,
        name=product,
        total_bytes=view.total_bytes,
        foreign_bytes=view.foreign_bytes,
        policy=view.policy.value,
        quantum_seconds=view.quantum_seconds,
        quantum_left_seconds=view.quantum_left_seconds,
        recovering=view.recovering,
        clients=[_client_message(client, members[client.client]) for client in view.clients],
        allocations_without_client=[_allocation_message(holding) for holding in unused],
    )


def _client_message(view: ClientSnapshot, member: Member) -> admin_pb2.Client:
    shown = member.description
    return admin_pb2.Client(
        id=view.client,
        pid=shown.pid,
        command=shown.command,
        state=view.state.value,
        footprint_bytes=view.footprint_bytes or 0,
        pinned_bytes=view.pinned_bytes,
        held_seconds=view.held_seconds,
        waited_seconds=view.waited_seconds,
        grants=view.grants,
        backend=member.backend,
        protocol_version=member.protocol_version,
        identity=_identity_message(shown.identity),
    )


def _allocation_message(holding: Holding) -> admin_pb2.Allocation:
    holder = Identity(holding.namespace, holding.pod, holding.container, Source.KUBELET)
    return admin_pb2.Allocation(identity=_identity_message(holder), virtual_device_ids=holding.virtual_device_ids)


def _identity_message(identity: Identity) -> admin_pb2.Identity | None:
    if identity.source is Source.NONE:
        return None
    return admin_pb2.Identity(
        namespace=identity.namespace,
        pod=identity.pod,
        container=identity.container,
        source=identity.source.value,
    )
