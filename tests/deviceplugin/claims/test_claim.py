"""What a ResourceClaim says that it has of a node."""

from __future__ import annotations

from typing import Any

import pytest

from nvshare.deviceplugin.claims.claim import ClaimError, Record, Request, Share, is_of, record_of
from nvshare.deviceplugin.claims.terms import NONE
from nvshare.terms_texts import Terms
from tests.deviceplugin.claims.bench import GIB, GPU_A, GPU_B, MIG, NODE, Document, claim, configuration, result

OFFERED = (GPU_A, GPU_B, MIG)
EXTENDED = {"resource.kubernetes.io/extended-resource-claim": "true"}


def read(*results: Document, **more: Any) -> Record:
    return record_of(claim("u", *results, **more), "u", NODE, OFFERED)


def terms(record: Record) -> dict[str, Terms]:
    """By request; each has one device."""
    return {request.name: device.terms for request in record.requests for device in request.devices}


def refusal(*results: Document, **more: Any) -> str:
    with pytest.raises(ClaimError) as error:
        read(*results, **more)
    return str(error.value)


def test_one_share() -> None:
    """Device, memory, shares and the share's id are those of the allocation."""
    assert read(result(shareID="s")) == Record(
        "u", "team", "share", (Request("gpu", (Share(GPU_A.lower(), GPU_A, 8 * GIB, 1, "s"),)),)
    )


def test_requests_in_their_order() -> None:
    """Results of one request are together; a subrequest counts as its request; other drivers' do not count."""
    foreign = result(request="net") | {"driver": "nic.example.com"}
    record = read(result(GPU_B, "b/large"), foreign, result(GPU_A, "a"), result(MIG, "b/large"))
    assert [(request.name, [device.uuid for device in request.devices]) for request in record.requests] == [
        ("b", [GPU_B, MIG]),
        ("a", [GPU_A]),
    ]
    assert record.uuids == (GPU_B, MIG, GPU_A)


def test_configurations() -> None:
    """The claim's counts before the class's, field by field; each for its requests, or for all."""
    record = read(
        result(GPU_A, "a"),
        result(GPU_B, "b/small"),
        config=[
            configuration(weight="4", sleep="idle"),
            configuration(["b"], priority="low"),
            configuration(["b/small"], weight="5"),
            configuration(["b/large"], weight="6"),
            configuration(["a"], "FromClass", weight="2", priority="high"),
            {"opaque": {"driver": "other.example.com", "parameters": {"weight": "heavy"}}},
        ],
    )
    assert terms(record) == {
        "a": Terms(weight=4.0, priority="high", sleep="idle"),
        "b": Terms(weight=5.0, priority="low", sleep="idle"),
    }


def test_one_gpu_for_several_requests() -> None:
    """What one request says counts for the claim on this GPU; the limit is for all that the claim has there."""
    record = read(
        result(GPU_A, "a", "4Gi"),
        result(GPU_A, "b", "8Gi"),
        config=[configuration(["a"], weight="2"), configuration(["b"], memoryLimit="12Gi")],
    )
    both = Terms(weight=2.0, memory_limit_bytes=12 * GIB)
    assert terms(record) == {"a": both, "b": both}


def test_requests_that_disagree() -> None:
    """Two requests on one GPU can't have different weights; it is said what to do."""
    text = refusal(
        result(GPU_A, "a"),
        result(GPU_A, "b"),
        config=[configuration(["a"], weight="2"), configuration(["b"], weight="3")],
    )
    assert text.startswith(f"requests a and b were given the same GPU, {GPU_A}, and say different things of weight: 2")
    assert "distinctAttribute: gpu.nvshare.com/uuid" in text


def test_limit_below_what_is_claimed() -> None:
    """A limit of less than was placed would waste the rest."""
    text = refusal(result(memory="8Gi"), config=[configuration(memoryLimit="4Gi")])
    assert text.startswith(f"memoryLimit of 4.0 GiB is less than the claim has of GPU {GPU_A}: 8.0 GiB.")
    assert terms(read(result(memory="8Gi"), config=[configuration(memoryLimit="8Gi")])) == {
        "gpu": Terms(memory_limit_bytes=8 * GIB)
    }


def test_admin_access() -> None:
    """It has the GPU, takes nothing of it, and has no terms; it does not count for others' limit either."""
    record = read(
        result(GPU_A, "a", adminAccess=True),
        result(GPU_A, "b", "8Gi"),
        config=[configuration(["a"], weight="2"), configuration(["b"], memoryLimit="8Gi")],
    )
    (admin, share) = [device for _, device in record.devices()]
    assert admin == Share(GPU_A.lower(), GPU_A, 0, 0, admin_access=True)
    assert share.terms == Terms(memory_limit_bytes=8 * GIB)
    assert read(result(memory=None, adminAccess=True)).requests[0].devices[0].memory_bytes == 0


def test_extended_resource() -> None:
    """Kubernetes made the claim for a pod that asks for nvshare.com/gpu: its annotations say what it may have."""
    record = read(result(), annotations=EXTENDED, config=[configuration(weight="heavy")])
    assert record.extended
    assert terms(record) == {"gpu": NONE}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (claim("v"), "deleted and made anew: its uid is v, and u was asked for"),
        (claim("u") | {"status": {}}, "nothing is allocated to the claim"),
        (claim("u", result() | {"driver": "x"}), "nothing of driver gpu.nvshare.com is allocated"),
        (claim("u", result() | {"pool": "node-2"}), "is of node node-2; this one is node-1"),
        (claim("u", result("GPU-9")), f"does not offer device gpu-9 now; it offers {GPU_A.lower()}, "),
        (claim("u", result(memory=None)), "memory of device gpu-8e5c1d6a-0000-0000-0000-00000000000a was not counted"),
        (claim("u", result(memory="much")), "'much' is no quantity"),
        (
            claim("u", config=[configuration(["gpu"], "FromClass", weight="0")]),
            "configuration of the DeviceClass for request gpu: weight: '0' is no weight",
        ),
        (claim("u", config=[configuration(sleep="x")]), "configuration of the claim: sleep: 'x' is none of"),
        (claim("u", config=[{"opaque": {"driver": "gpu.nvshare.com"}}]), "it is no object"),
    ],
)
def test_what_is_wrong(document: Document, text: str) -> None:
    """Each has its text, which names what was found."""
    with pytest.raises(ClaimError) as error:
        record_of(document, "u", NODE, OFFERED)
    assert text in str(error.value)


def test_whose_it_is() -> None:
    """A claim is a node's while something is allocated there."""
    assert is_of(claim("u"), "u", NODE)
    assert not is_of(claim("v"), "u", NODE)
    assert not is_of(claim("u"), "u", "node-2")
    assert not is_of(claim("u") | {"status": {}}, "u", NODE)
    assert not is_of(claim("u") | {"status": {"allocation": None}}, "u", NODE)
