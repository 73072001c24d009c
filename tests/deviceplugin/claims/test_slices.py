"""The slice of a node, as the API takes it."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.deviceplugin.claims.attributes import attributes
from nvshare.deviceplugin.claims.capacity import Capacity
from nvshare.deviceplugin.claims.slices import (
    UNHEALTHY,
    Node,
    Offered,
    canonical,
    devices,
    is_shared,
    keeps_taints,
    resource_slice,
    slug,
)
from nvshare.deviceplugin.devices import Gpu, GpuFacts
from tests.deviceplugin.claims.api_rules import mistakes

GIB = 1 << 30
SOME = Capacity(8 * GIB, 8 * GIB, GIB, 8, 8 * GIB)
NODE = Node("worker-1", "uid-node")
FACTS = GpuFacts("NVIDIA H100 80GB HBM3", "Nvidia", "Hopper", "9.0", "550.054.14", "12.4")
WHOLE = Gpu("GPU-0A1b", "2", minor=2, bus_id="00000000:3B:00.0", facts=FACTS)


def gpu(number: int, problem: str | None = None) -> Offered:
    return Offered(f"GPU-{number}", SOME, attributes(Gpu(f"GPU-{number}", str(number)), None, None, None), problem)


def test_a_whole_gpu() -> None:
    """Everything that is known of it."""
    told = attributes(WHOLE, "0000:3b:00.0", "pci0000:3a", 1)
    assert told == {
        "type": {"string": "gpu"},
        "uuid": {"string": "GPU-0A1b"},
        "index": {"int": 2},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Hopper"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "550.54.14"},
        "cudaDriverVersion": {"version": "12.4.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:3a"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:3b:00.0"},
        "numaNode": {"int": 1},
    }
    made = resource_slice(NODE, devices([Offered(WHOLE.uuid, SOME, told)]), 7, None)
    assert mistakes(made) == []
    assert made["spec"]["devices"][0]["name"] == "gpu-0a1b"
    assert made["spec"]["pool"] == {"name": "worker-1", "generation": 7, "resourceSliceCount": 1}


def test_a_mig_device() -> None:
    """It says whose part it is, and how much of it."""
    told = attributes(Gpu("MIG-1", "0:3", "GPU-0", 1, 0, mig_profile="1g.10gb+me"), None, None, None)
    assert told == {
        "type": {"string": "mig"},
        "uuid": {"string": "MIG-1"},
        "index": {"int": 0},
        "parentUUID": {"string": "GPU-0"},
        "profile": {"string": "1g.10gb+me"},
    }


@given(
    facts=st.builds(GpuFacts, *[st.none() | st.text(max_size=100)] * 6),
    index=st.from_regex(r"[0-9]{1,4}(:[0-9]{1,4})?", fullmatch=True),
    problems=st.lists(st.none() | st.text(min_size=1, max_size=300), max_size=140),
    numa=st.none() | st.integers(0, 99),
)
def test_whatever_nvml_says(facts: GpuFacts, index: str, problems: list[str | None], numa: int | None) -> None:
    """The API takes the slice."""
    told = attributes(Gpu("GPU-a", index, facts=facts), None, None, numa)
    offered = [Offered(f"GPU-{at}", SOME, told, problem) for at, problem in enumerate(problems)]
    assert mistakes(resource_slice(NODE, devices(offered), 1, None)) == []


def test_a_sick_gpu() -> None:
    """No new claim gets it; the taint says why."""
    (device,) = devices([gpu(0, "XID 79 (GPU has fallen off the bus)")])
    taint = {"key": UNHEALTHY, "value": "xid-79-gpu-has-fallen-off-the-bus", "effect": "NoSchedule"}
    assert device["taints"] == [taint]
    assert "taints" not in devices([gpu(0)])[0]


@pytest.mark.parametrize("reason", ["", "---", "é", "x" * 200, "a" * 62 + " b"])
def test_slugs(reason: str) -> None:
    """Values of labels, for whatever reason."""
    assert slug(reason)
    assert mistakes(resource_slice(NODE, devices([gpu(0, reason or "-")]), 1, None)) == []


def test_more_than_may_have_taints() -> None:
    """The sick are left out: the others stay."""
    many = [gpu(at) for at in range(99)] + [gpu(99, "lost")]
    assert [each["name"] for each in devices(many)] == [f"gpu-{at}" for at in range(99)]


def test_when_a_taint_came() -> None:
    """That is the server's word: it makes no other slice."""
    ours = devices([gpu(0, "lost"), gpu(1)])
    theirs = copy.deepcopy(ours)
    theirs[0]["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z"
    assert canonical(ours) == canonical(theirs)
    theirs[1]["capacity"]["memory"]["value"] = "7Gi"
    assert canonical(ours) != canonical(theirs)


def test_what_a_server_drops() -> None:
    """One without the feature gates takes the slice, and leaves out what it does not know."""
    ours = devices([gpu(0, "lost"), gpu(1)])
    without = [{key: value for key, value in each.items() if key != "taints"} for each in ours]
    assert keeps_taints(ours, ours)
    assert not keeps_taints(ours, without)
    exclusive = [{key: value for key, value in each.items() if key != "allowMultipleAllocations"} for each in ours]
    assert is_shared(ours)
    assert not is_shared(exclusive)
