"""The admin API's messages about devices, from what the core and the dispatcher know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from nvshare.admin import admin_pb2
from nvshare.process_state import is_stopped, remedy
from nvshare.scheduler.core.snapshot import (
    ClientSnapshot,
    DeviceSnapshot,
    GangSnapshot,
    MixSnapshot,
    ShownState,
    SwapSnapshot,
    TrafficSnapshot,
)
from nvshare.scheduler.core.terms import Terms
from nvshare.scheduler.gpus.queries import Gpu
from nvshare.scheduler.memberships import Origins
from nvshare.scheduler.pods.allocations import Holding
from nvshare.scheduler.pods.identity import Identity, Source
from nvshare.scheduler.recovery.record import Recorded
from nvshare.scheduler.registered_client import RegisteredClient


def device_message(
    snapshot: DeviceSnapshot,
    gpu: Gpu | None,
    measured: bool,
    clients: Mapping[int, RegisteredClient],
    unused: Iterable[Holding],
    given_twice: Iterable[Holding],
    held: Iterable[Holding],
    awaited: Iterable[Recorded],
    origins: Callable[[str], Origins],
    asleep_seconds: Callable[[int], float],
    awake_reason: Callable[[int], str],
    claimed: admin_pb2.ClaimedMemory | None,
    assumed_context_bytes: int,
    reserve_bytes: int,
) -> admin_pb2.Device:
    """A device, its clients, its holdings, of them the ``unused``, those of other plugins and the holders it waits for.

    ``gpu``: None where NVML does not show it. ``measured``: whether the memory of processes that are no clients is
    known. ``origins``: where the terms of a container come from. ``asleep_seconds``: for how long a client has been
    asleep, or waking. ``awake_reason``: why the process of one can't sleep, whatever it does. ``claimed``: what claims
    have of it. ``assumed_context_bytes``: what a context is taken to take before it is measured.
    ``reserve_bytes``: what stays free of it once memory swaps there.
    """
    return admin_pb2.Device(
        uuid=snapshot.device,
        name="" if gpu is None else gpu.product,
        index="" if gpu is None else gpu.index,
        total_bytes=snapshot.total_bytes,
        foreign_bytes=snapshot.foreign_bytes if measured else None,
        policy=snapshot.policy.value,
        quantum_seconds=snapshot.quantum_seconds,
        quantum_left_seconds=snapshot.quantum_left_seconds,
        recovering=snapshot.recovering,
        reserve_bytes=snapshot.reserve_bytes,
        swapping=_swapping_message(snapshot.traffic),
        mix=None if snapshot.mix is None else _mix_message(snapshot.mix),
        clients=[
            _client_message(
                client,
                clients[client.client],
                origins(client.container),
                asleep_seconds(client.client),
                client.awake_reason or awake_reason(client.client),
            )
            for client in snapshot.clients
        ],
        allocations_without_client=[_allocation_message(holding) for holding in unused],
        allocations_by_others=[_allocation_message(holding) for holding in given_twice],
        allocations=[_allocation_message(holding) for holding in held],
        claimed=claimed,
        assumed_context_bytes=assumed_context_bytes,
        swap_reserve_bytes=reserve_bytes,
        awaited=[admin_pb2.AwaitedHolder(pid=holder.pid, command=holder.command) for holder in awaited],
    )


def _mix_message(mix: MixSnapshot) -> admin_pb2.Mix:
    return admin_pb2.Mix(
        turns=mix.turns,
        measuring=mix.measuring,
        ratio=mix.ratio,
        measured_seconds=mix.measured_seconds,
        bursts=mix.bursts,
    )


def _swapping_message(traffic: TrafficSnapshot) -> admin_pb2.Swapping:
    return admin_pb2.Swapping(
        in_bytes=traffic.in_bytes,
        out_bytes=traffic.out_bytes,
        spared_bytes=traffic.spared_bytes,
        in_seconds=traffic.in_seconds,
        out_seconds=traffic.out_seconds,
        in_bytes_per_second=traffic.in_bytes_per_second,
        out_bytes_per_second=traffic.out_bytes_per_second,
        stalls=traffic.stalls,
        stall_seconds=traffic.stall_seconds,
        prefetched=traffic.prefetched,
        refused_growths=traffic.refused,
    )


def _client_message(
    snapshot: ClientSnapshot, client: RegisteredClient, origins: Origins, asleep_seconds: float, awake_reason: str
) -> admin_pb2.Client:
    shown = client.description
    line = snapshot.line
    return admin_pb2.Client(
        id=snapshot.client,
        pid=shown.pid,
        command=shown.command,
        state=snapshot.state.value,
        footprint_bytes=snapshot.allocated_bytes,
        pinned_bytes=snapshot.pinned_bytes,
        pinned_measured=snapshot.pinned_measured,
        held_seconds=snapshot.held_seconds,
        waited_seconds=snapshot.waited_seconds,
        grants=snapshot.grants,
        backend=client.backend,
        protocol_version=client.protocol_version,
        identity=_identity_message(shown.identity),
        waiting_seconds=0.0 if line is None else line.seconds,
        position=0 if line is None else line.position,
        behind=() if line is None else (holding.client for holding in line.behind),
        too_large=line is not None and line.too_large and not line.recovering,
        drain=client.drain,
        notices=(*_stopped(snapshot, shown.pid), *client.notices),
        swap=None if snapshot.swap is None else _swap_message(snapshot.swap),
        member_of=snapshot.container,
        terms=_terms_message(snapshot.terms, origins),
        memory_kept_bytes=snapshot.kept_bytes,
        gang=None if snapshot.gang is None else _gang_message(snapshot.gang),
        memory_wait=client.memory_wait or ("" if snapshot.swap is None else snapshot.swap.wait),
        asleep_seconds=asleep_seconds,
        sleeps=snapshot.sleeps,
        awake_reason=awake_reason,
    )


def _stopped(snapshot: ClientSnapshot, pid: int) -> tuple[str, ...]:
    """What to do about one that stands still, and has what others may want, or is to bring its memory in or to wake."""
    moves = snapshot.swap is not None and (snapshot.swap.leaving_bytes > 0 or snapshot.swap.still_seconds > 0)
    has = moves or snapshot.state not in (ShownState.IDLE, ShownState.WAITING, ShownState.ASLEEP)
    return (remedy(pid),) if has and is_stopped(pid) else ()


def _terms_message(terms: Terms, origins: Origins) -> admin_pb2.Terms:
    return admin_pb2.Terms(
        weight=terms.weight,
        priority=terms.priority.name.lower(),
        compute_limit=terms.compute_limit,
        memory_limit_bytes=terms.memory_limit_bytes,
        memory_request_bytes=terms.memory_request_bytes,
        when_full=terms.when_full,
        sleep=terms.sleep or "",
        by_command=origins.command,
        by_annotation=origins.annotation,
        by_claim=origins.claim,
    )


def _gang_message(gang: GangSnapshot) -> admin_pb2.Gang:
    return admin_pb2.Gang(
        name=gang.name or f"gang {gang.number}",
        members=gang.members,
        size=gang.size,
        apart=gang.apart,
        come=gang.come,
        expected=gang.expected,
    )


def _swap_message(swap: SwapSnapshot) -> admin_pb2.Swap:
    return admin_pb2.Swap(
        resident_bytes=swap.resident_bytes,
        swapped_bytes=swap.out_bytes,
        fixed_bytes=swap.fixed_bytes,
        allotted_bytes=swap.allotted_bytes,
        admitted_bytes=swap.admitted_bytes,
        host_bytes=swap.arena_bytes,
        usable_host_bytes=swap.usable_bytes,
        coming_bytes=swap.in_bytes,
        leaving_bytes=swap.leaving_bytes,
        wanted_bytes=swap.wanted_bytes,
        still_seconds=swap.still_seconds,
        stored_bytes=swap.stored_bytes,
        shared_bytes=swap.shared_bytes,
    )


def _allocation_message(holding: Holding) -> admin_pb2.Allocation:
    holder = Identity(holding.namespace, holding.pod, holding.container, Source.KUBELET)
    return admin_pb2.Allocation(
        identity=_identity_message(holder),
        virtual_device_ids=holding.virtual_device_ids,
        resource=holding.resource,
        ending=holding.ending,
        claim=holding.claim,
        shares=holding.shares,
    )


def _identity_message(identity: Identity) -> admin_pb2.Identity | None:
    if identity.source is Source.NONE:
        return None
    return admin_pb2.Identity(
        namespace=identity.namespace,
        pod=identity.pod,
        container=identity.container,
        source=identity.source.value,
    )
