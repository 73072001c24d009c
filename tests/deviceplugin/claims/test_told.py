"""What the scheduler is told of claims."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nvshare.admin import admin_pb2
from nvshare.deviceplugin.claims.claim import Record, record_of
from nvshare.deviceplugin.claims.told import promised, request_of
from tests.deviceplugin.claims.bench import GIB, GPU_A, GPU_B, NODE, claim, configuration, result

OWN = {GPU_A: 16 * GIB, GPU_B: 16 * GIB}


def record(uid: str, *results: dict[str, object], **more: object) -> Record:
    return record_of(claim(uid, *results, **more), uid, NODE, OWN)  # type: ignore[arg-type]


def told(*records: Record) -> list[admin_pb2.ClaimedDevice]:
    return [device for each in request_of(records, OWN.get).claims for device in each.devices]


def test_a_share() -> None:
    """What a claim has is its limit and, while there is enough, what it keeps."""
    request = request_of([record("u", result(memory="8Gi"))], OWN.get)
    assert request == admin_pb2.SetClaimsRequest(
        claims=[
            admin_pb2.Claim(
                uid="u",
                namespace="team",
                name="share",
                devices=[
                    admin_pb2.ClaimedDevice(
                        request="gpu",
                        device_uuid=GPU_A,
                        memory_bytes=8 * GIB,
                        shares=1,
                        memory_limit_bytes=8 * GIB,
                        memory_request_bytes=8 * GIB,
                    )
                ],
            )
        ]
    )


def test_terms() -> None:
    """All that a configuration says."""
    fields = {
        "weight": "2",
        "priority": "high",
        "computeLimit": "30",
        "memoryLimit": "12Gi",
        "sleep": "idle",
        "whenFull": "refuse",
    }
    (device,) = told(record("u", result(memory="8Gi"), config=[configuration(**fields)]))
    assert (device.weight, device.priority, device.compute_limit) == (2.0, "high", 0.3)
    assert (device.memory_limit_bytes, device.memory_request_bytes) == (12 * GIB, 8 * GIB)
    assert (device.sleep, device.when_full) == ("idle", "refuse")


def test_several_on_one_gpu() -> None:
    """Each entry says what it consumed, and what the claim may have of the GPU."""
    first, second = told(record("u", result(request="a", memory="2Gi"), result(request="b", memory="4Gi")))
    assert (first.memory_bytes, second.memory_bytes) == (2 * GIB, 4 * GIB)
    for each in (first, second):
        assert (each.memory_limit_bytes, each.memory_request_bytes) == (6 * GIB, 6 * GIB)


def test_no_terms() -> None:
    """Claims of extended resources and admin access make no account."""
    extended = {"resource.kubernetes.io/extended-resource-claim": "true"}
    one, other = told(record("u", annotations=extended), record("v", result(GPU_B, adminAccess=True)))
    for each in (one, other):
        assert not each.HasField("memory_limit_bytes")
        assert not each.HasField("memory_request_bytes")
    assert (one.memory_bytes, other.memory_bytes, other.admin_access) == (8 * GIB, 0, True)


def test_more_than_there_is() -> None:
    """Where more is claimed than the GPU has, each keeps so much that the largest fits beside it; the limit stays."""
    first, second = told(record("u", result(memory="12Gi")), record("v", result(memory="8Gi")))
    assert (first.memory_request_bytes, second.memory_request_bytes) == (6 * GIB, 4 * GIB)
    assert (first.memory_limit_bytes, second.memory_limit_bytes) == (12 * GIB, 8 * GIB)


def test_not_known_yet() -> None:
    """While the GPU's memory is not known nothing of it is promised."""
    (claimed,) = request_of([record("u")], lambda uuid: None).claims
    assert not claimed.devices[0].HasField("memory_request_bytes")
    assert claimed.devices[0].memory_limit_bytes == 8 * GIB


def test_order_does_not_matter() -> None:
    """The same claims are told in the same way."""
    one, other = record("u"), record("v", name="another")
    assert request_of([one, other], OWN.get) == request_of([other, one], OWN.get)


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=20), st.integers(0, 1 << 40))
def test_each_fits_beside_the_others(claimed: list[int], own: int) -> None:
    """None keeps more than it has claimed, and all of any claim that the GPU has fits beside what all others keep."""
    kept = [promised(each, claimed, own) for each in claimed]
    for each, keeps in zip(claimed, kept, strict=True):
        assert 0 <= keeps <= each
        assert min(each, own) + sum(kept) - keeps <= own
    assert sum(claimed) > own or kept == claimed
