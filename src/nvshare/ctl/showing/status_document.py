"""The status as plain data for scripts, as ``-o json`` and ``-o yaml`` print it. Units are in the names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from nvshare.admin import admin_pb2
from nvshare.container_names import claim_of, given
from nvshare.ctl.showing import memory
from nvshare.ctl.showing.schema_version import SCHEMA_VERSION

Document = dict[str, Any]


def from_status(status: admin_pb2.Status) -> Document:
    """The whole answer of the scheduler. A field that has no value now is null, never missing."""
    return {
        "schema_version": SCHEMA_VERSION,
        "version": status.version,
        "scheduler_pid": status.scheduler_pid,
        "uptime_seconds": _seconds(status.uptime_seconds),
        "host_memory_bytes": status.host_memory_bytes or None,
        "host_memory_used_bytes": status.host_memory_used_bytes,
        "swap_dir": status.swap_dir or None,
        "swap_file_bytes": status.swap_file_bytes or None,
        "swap_file_used_bytes": status.swap_file_used_bytes,
        "shared_blocks_bytes": status.shared_blocks_bytes,
        "packs_bytes": status.packs_bytes,
        "devices": [_of_device(device) for device in status.devices],
    }


def to_status(document: Document) -> admin_pb2.Status:
    """The status that a document shows. It may be another version's: names that this one does not know are left out."""
    return admin_pb2.Status(**_fields(admin_pb2.Status, document, devices=_to_device))


def _to_device(document: Document) -> admin_pb2.Device:
    return admin_pb2.Device(
        **_fields(
            admin_pb2.Device,
            document,
            clients=_to_client,
            allocations_without_client=_to_allocation,
            allocations_by_others=_to_allocation,
            awaited=_to_awaited,
            swapping=_to_swapping,
            mix=_to_mix,
            claimed=_to_claimed,
        )
    )


def _to_awaited(document: Document) -> admin_pb2.AwaitedHolder:
    return admin_pb2.AwaitedHolder(**_fields(admin_pb2.AwaitedHolder, document))


def _to_swapping(document: Document) -> admin_pb2.Swapping:
    return admin_pb2.Swapping(**_fields(admin_pb2.Swapping, document))


def _to_mix(document: Document) -> admin_pb2.Mix:
    return admin_pb2.Mix(**_fields(admin_pb2.Mix, document))


def _to_claimed(document: Document) -> admin_pb2.ClaimedMemory:
    return admin_pb2.ClaimedMemory(**_fields(admin_pb2.ClaimedMemory, document))


def _to_client(document: Document) -> admin_pb2.Client:
    return admin_pb2.Client(
        **_fields(admin_pb2.Client, document, swap=_to_swap, terms=_to_terms, gang=_to_gang),
        identity=_to_identity(document),
    )


def _to_gang(document: Document) -> admin_pb2.Gang:
    return admin_pb2.Gang(**_fields(admin_pb2.Gang, document))


def _to_terms(document: Document) -> admin_pb2.Terms:
    return admin_pb2.Terms(**_fields(admin_pb2.Terms, document))


def _to_swap(document: Document) -> admin_pb2.Swap:
    return admin_pb2.Swap(**_fields(admin_pb2.Swap, document))


def _to_allocation(document: Document) -> admin_pb2.Allocation:
    return admin_pb2.Allocation(**_fields(admin_pb2.Allocation, document), identity=_to_identity(document))


def _to_identity(document: Document) -> admin_pb2.Identity | None:
    values = _fields(admin_pb2.Identity, {**document, "source": document.get("identity_source")})
    return admin_pb2.Identity(**values) if values else None


def _fields(message: type[Message], document: Document, **made: Callable[[Document], Message]) -> Document:
    """The values of a message's fields, without those that are null. ``made``: how to make what is itself a message."""
    return {
        field.name: _made(made[field.name], document[field.name]) if field.name in made else document[field.name]
        for field in message.DESCRIPTOR.fields
        if document.get(field.name) is not None
    }


def _made(make: Callable[[Document], Message], value: Any) -> Any:
    return [make(entry) for entry in value] if isinstance(value, list) else make(value)


def _of_device(device: admin_pb2.Device) -> Document:
    left = _seconds(device.quantum_left_seconds) if device.HasField("quantum_left_seconds") else None
    return {
        "index": device.index or None,
        "uuid": device.uuid,
        "name": device.name or None,
        "total_bytes": device.total_bytes or None,
        "foreign_bytes": device.foreign_bytes if device.HasField("foreign_bytes") else None,
        "free_bytes": memory.of(device).free_bytes,
        "reserve_bytes": device.reserve_bytes,
        "swapping": _of_numbers(device.swapping) if device.HasField("swapping") else None,
        "mix": _of_mix(device.mix) if device.HasField("mix") else None,
        "claimed": _of_numbers(device.claimed) if device.HasField("claimed") else None,
        "policy": device.policy,
        "quantum_seconds": device.quantum_seconds,
        "quantum_left_seconds": left,
        "recovering": device.recovering,
        "awaited": [{"pid": holder.pid, "command": holder.command} for holder in device.awaited],
        "clients": [_of_client(client) for client in device.clients],
        "allocations_without_client": [
            {**_of_allocation(entry), "claim": entry.claim or None, "shares": entry.shares}
            for entry in device.allocations_without_client
        ],
        "allocations_by_others": [
            {**_of_allocation(entry), "resource": entry.resource} for entry in device.allocations_by_others
        ],
    }


def _of_mix(mix: admin_pb2.Mix) -> Document:
    return {
        "turns": mix.turns,
        "measuring": mix.measuring,
        "ratio": _seconds(mix.ratio) if mix.HasField("ratio") else None,
        "measured_seconds": _seconds(mix.measured_seconds) if mix.HasField("measured_seconds") else None,
        "bursts": _seconds(mix.bursts) if mix.HasField("bursts") else None,
    }


def _of_client(client: admin_pb2.Client) -> Document:
    return {
        "id": client.id,
        "pid": client.pid or None,
        "command": client.command or None,
        "state": client.state,
        "footprint_bytes": client.footprint_bytes if client.HasField("footprint_bytes") else None,
        "pinned_bytes": client.pinned_bytes,
        "pinned_measured": client.pinned_measured,
        "swap": _of_numbers(client.swap) if client.HasField("swap") else None,
        "name": given(client.member_of) or None,
        "member_of": client.member_of or None,
        "claim": claim_of(client.member_of) or None,
        "terms": _of_terms(client.terms) if client.HasField("terms") else None,
        "memory_kept_bytes": client.memory_kept_bytes,
        "held_seconds": _seconds(client.held_seconds),
        "waited_seconds": _seconds(client.waited_seconds),
        "grants": client.grants,
        "backend": client.backend or None,
        "protocol_version": client.protocol_version,
        "waiting_seconds": _seconds(client.waiting_seconds) if client.position else None,
        "position": client.position or None,
        "behind": list(client.behind),
        "too_large": client.too_large,
        "drain": client.drain or None,
        "notices": list(client.notices),
        "memory_wait": client.memory_wait or None,
        "asleep_seconds": _seconds(client.asleep_seconds) if client.state in ("asleep", "waking") else None,
        "sleeps": client.sleeps,
        "awake_reason": client.awake_reason or None,
        "gang": _of_gang(client.gang) if client.HasField("gang") else None,
        **_of_identity(client.identity),
    }


def _of_terms(terms: admin_pb2.Terms) -> Document:
    return {
        "weight": terms.weight,
        "priority": terms.priority,
        "compute_limit": terms.compute_limit if terms.HasField("compute_limit") else None,
        "memory_limit_bytes": terms.memory_limit_bytes if terms.HasField("memory_limit_bytes") else None,
        "memory_request_bytes": terms.memory_request_bytes,
        "when_full": terms.when_full,
        "sleep": terms.sleep or None,
        "by_command": list(terms.by_command),
        "by_annotation": list(terms.by_annotation),
        "by_claim": list(terms.by_claim),
    }


def _of_gang(gang: admin_pb2.Gang) -> Document:
    return {
        "name": gang.name,
        "members": gang.members,
        "size": gang.size,
        "apart": gang.apart,
        "come": gang.come,
        "expected": gang.expected,
    }


def _of_numbers(message: Message) -> Document:
    """Of a message that has nothing but numbers."""
    values = ((field.name, getattr(message, field.name)) for field in message.DESCRIPTOR.fields)
    return {name: _seconds(value) if isinstance(value, float) else value for name, value in values}


def _of_identity(identity: admin_pb2.Identity) -> Document:
    return {
        "namespace": identity.namespace or None,
        "pod": identity.pod or None,
        "container": identity.container or None,
        "identity_source": identity.source or None,
    }


def _of_allocation(entry: admin_pb2.Allocation) -> Document:
    return {**_of_identity(entry.identity), "virtual_device_ids": list(entry.virtual_device_ids)}


def _seconds(value: float) -> float:
    """Microseconds are enough, and shorter to read than the full fraction."""
    return round(value, 6)
