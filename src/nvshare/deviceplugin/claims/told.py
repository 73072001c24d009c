"""What the scheduler is told of the claims on this node. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from nvshare.admin import admin_pb2
from nvshare.deviceplugin.claims.claim import Record, Share


def request_of(records: Collection[Record], own_bytes: Callable[[str], int | None]) -> admin_pb2.SetClaimsRequest:
    """All of them; the same for the same records in any order.

    ``own_bytes``: the memory of a GPU that claims can be promised; None: it is not known, and no memory is promised.
    """
    consumed = [record.consumed() for record in records]
    request = admin_pb2.SetClaimsRequest()
    for record in sorted(records, key=lambda record: (record.full_name, record.uid)):
        claim = request.claims.add(uid=record.uid, namespace=record.namespace, name=record.name)
        claim.devices.extend(_devices(record, consumed, own_bytes))
    return request


def _devices(
    record: Record, consumed: Sequence[Counter[str]], own_bytes: Callable[[str], int | None]
) -> Iterator[admin_pb2.ClaimedDevice]:
    of_claim, limits = record.consumed(), record.limits()
    for name, device in record.devices():
        told = admin_pb2.ClaimedDevice(
            request=name,
            device_uuid=device.uuid,
            memory_bytes=device.memory_bytes,
            shares=device.shares,
            admin_access=device.admin_access,
        )
        if not record.extended and not device.admin_access:
            _tell_terms(told, device, limits[device.uuid])
            own = own_bytes(device.uuid) or 0
            if memory_bytes := promised(of_claim[device.uuid], [each[device.uuid] for each in consumed], own):
                told.memory_request_bytes = memory_bytes
        yield told


def consumed_by(records: Iterable[Record]) -> Counter[str]:
    """What claims consume of the memory of each GPU."""
    return sum((record.consumed() for record in records), Counter[str]())


def promised(claimed: int, by_each: Sequence[int], own: int) -> int:
    """How much of a GPU's memory a claim keeps whatever others need.

    ``by_each``: what each claim has of it, this one too. Where that is more than ``own`` in all, each keeps so much
    less that the largest fits beside what all others keep: who has a claim may use all of it, while others swap.
    """
    total, largest = sum(by_each), max(by_each)
    if total <= own:
        return claimed
    if total == largest:
        return min(claimed, own)
    return claimed * max(0, own - largest) // (total - largest)


def _tell_terms(told: admin_pb2.ClaimedDevice, device: Share, limit_bytes: int | None) -> None:
    terms = device.terms
    if limit_bytes is not None:
        told.memory_limit_bytes = limit_bytes
    if terms.weight is not None:
        told.weight = terms.weight
    if terms.priority is not None:
        told.priority = terms.priority
    if terms.compute_limit is not None:
        told.compute_limit = terms.compute_limit
    if terms.when_full is not None:
        told.when_full = terms.when_full
    if terms.sleep is not None:
        told.sleep = terms.sleep
