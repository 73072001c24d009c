"""Which of the free virtual devices a container should get: one of each GPU in turns, in the policy's order. Pure.

kubelet gives the ids in a new random order at every call, so ties are broken by the order of the GPUs and then by the
ordinal. A virtual device that is offered and not free counts as allocated: nothing is remembered between calls. Those
of pods that are ending will be free soon, so they count only where all else is equal.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from nvshare.deviceplugin.answers.requests import Rules
from nvshare.deviceplugin.devices import Snapshot, uuid_part


class AllocationPolicy(StrEnum):
    """Which of the GPUs that have a free virtual device comes first."""

    SPREAD = "spread"
    """The one with the least to do."""
    PACKED = "packed"
    """The one with the most allocated, so that others stay free of containers."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the scheduler says about a GPU: clients that hold or want the lock, and containers that have any client."""

    busy: int
    containers: int


def prefer(
    snapshot: Snapshot,
    rules: Rules,
    available: Sequence[str],
    must_include: Sequence[str],
    size: int,
    loads: Mapping[str, Load] | None = None,
    policy: AllocationPolicy = AllocationPolicy.SPREAD,
    ending: Set[str] = frozenset(),
) -> tuple[str, ...]:
    """``size`` ids: those that must be included, then free ones; fewer when fewer are free.

    ``ending``: the ids that pods hold, or held just now, which are to end or have ended.
    Raises RequestError only when the operator's rules forbid the request: kubelet fails the pod for good then.
    """
    rules.check_size(size)
    free = _by_gpu(available, snapshot, ending)
    leaving = Counter(_gpu_of(device_id, snapshot) for device_id in ending - set(available))
    rules.check_distinct(size, len(free), f"only {len(free)} of its {len(snapshot.offers)} GPUs have a free one")
    chosen = list(dict.fromkeys(must_include))[: max(size, 0)]
    picked = Counter(_gpu_of(device_id, snapshot) for device_id in chosen)
    heap: list[tuple[bool, int, tuple[int, int, int], int, str]] = []
    for uuid, ids in free.items():
        cost = _cost(snapshot, uuid, len(ids), leaving[uuid], loads, policy)
        ids[:] = [device_id for device_id in ids if device_id not in chosen]
        if ids:
            heap.append((snapshot.total(uuid) == 0, picked[uuid], cost, snapshot.position(uuid), uuid))
    heapq.heapify(heap)
    while heap and len(chosen) < size:
        unknown, count, cost, position, uuid = heapq.heappop(heap)
        chosen.append(free[uuid].pop())
        if free[uuid]:
            heapq.heappush(heap, (unknown, count + 1, cost, position, uuid))
    return tuple(chosen)


def _cost(
    snapshot: Snapshot, uuid: str, free: int, leaving: int, loads: Mapping[str, Load] | None, policy: AllocationPolicy
) -> tuple[int, int, int]:
    """The less it is, the sooner the GPU's turn comes.

    PACKED goes by what is allocated, because a GPU is free of containers only when nothing of it is. Of GPUs with
    equally much the one with less to do comes first.
    """
    allocated = max(snapshot.offered(uuid) - free - leaving, 0)
    to_do = _to_do(allocated, uuid, loads)
    match policy:
        case AllocationPolicy.SPREAD:
            return to_do, leaving, 0
        case AllocationPolicy.PACKED:
            return -allocated, to_do, leaving
    assert_never(policy)


def _to_do(allocated: int, uuid: str, loads: Mapping[str, Load] | None) -> int:
    """How much the GPU has to do already; by count, or by the scheduler's load where it is known.

    With loads, an allocated virtual device whose container has no client yet counts as much as a busy client: it may
    begin at any moment, and pods that arrive together must not all get the GPU on which none has begun yet.
    """
    if loads is None:
        return allocated
    load = loads.get(uuid, Load(0, 0))
    return load.busy + max(allocated - load.containers, 0)


def _by_gpu(ids: Iterable[str], snapshot: Snapshot, ending: Set[str]) -> dict[str, list[str]]:
    """The ids of each GPU, highest ordinal first, so that ``pop`` gives the lowest.

    Those that were an ending pod's just now come last: until that is known to be over, who gets one counts as ending.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for device_id in set(ids):
        groups[_gpu_of(device_id, snapshot)].append(device_id)
    for group in groups.values():
        group.sort(key=lambda device_id: (device_id in ending, len(device_id), device_id), reverse=True)
    return groups


def _gpu_of(device_id: str, snapshot: Snapshot) -> str:
    """The GPU of an id. An id of no GPU of ours stands for itself: best effort, where an error would fail the pod."""
    uuid = uuid_part(device_id)
    return uuid if snapshot.total(uuid) else device_id
