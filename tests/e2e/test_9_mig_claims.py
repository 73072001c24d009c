"""A node with a whole GPU and one in MIG mode: its MIG devices are claimed by a class of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.deploy.rendering import CHART
from tests.e2e.claims import (
    MIB,
    MIG_CLASS,
    UNTIL,
    capacity_of,
    claim,
    claiming,
    devices,
    events_of,
    prepared,
    settings,
    template,
    using_all,
)
from tests.e2e.conftest import Helm
from tests.e2e.kubectl import TESTS, Object, apply, eventually, kubectl, rolled_out, scheduler_status
from tests.e2e.node import POD, Node
from tests.e2e.programs import delete, ended, events, kill_all_but, log, phase, tell_to_end

pytestmark = pytest.mark.timeout(400)

PROFILES = ("3g.40gb", "2g.20gb")
"""Of the second GPU's MIG devices: half of its memory, and a quarter."""
_SHOW_ENVIRONMENT = f"""
import json, os, time
from pathlib import Path
print(json.dumps({{"event": "Started", "environment": dict(os.environ)}}), flush=True)
while not Path({UNTIL!r}).exists():
    time.sleep(0.1)
"""
_SHOWING = ["python3", "-c", _SHOW_ENVIRONMENT]


@pytest.fixture(scope="module")
def split(emptied: Node, helm: Helm) -> Iterator[Node]:
    """The node with the chart's value for claims, after its second GPU was split."""
    emptied.sicken(f"mig 1 {' '.join(PROFILES)}")
    helm("install", str(CHART), "--create-namespace", *settings())
    rolled_out()
    eventually("all devices can be claimed", lambda: len(devices()) == 1 + len(PROFILES), 90)
    yield emptied
    kill_all_but(POD)
    kubectl("delete", "resourceclaims,resourceclaimtemplates", "--all", "--namespace", TESTS)
    eventually("no claim is prepared", lambda: not prepared(emptied), 60)
    helm("uninstall", "--wait")
    emptied.sicken("")


def by_profile() -> dict[str, Object]:
    """The MIG devices of the slice."""
    found = (each for each in devices() if each["attributes"]["type"]["string"] == "mig")
    return {each["attributes"]["profile"]["string"]: each for each in found}


def whole() -> Object:
    """The whole GPU of the slice."""
    (found,) = (each for each in devices() if each["attributes"]["type"]["string"] == "gpu")
    return found


def claimed_bytes(device: Object) -> int:
    """What the scheduler knows of the claims to a device."""
    (found,) = (each for each in scheduler_status()["devices"] if each["uuid"].lower() == device["name"])
    return int((found["claimed"] or {}).get("requested_bytes", 0))


def test_mig_devices_can_be_claimed(split: Node) -> None:
    """Each by its profile, with memory of its own, and the GPU of which it is a part; that itself can't be claimed."""
    found = by_profile()
    assert set(found) == set(PROFILES)
    assert whole()["attributes"]["index"] == {"int": 0}
    own = [int(capacity_of(each, "memory")) for each in (whole(), *(found[profile] for profile in PROFILES))]
    assert own[0] > own[1] > own[2] > 0
    for profile, part in zip(PROFILES, (2, 4), strict=True):
        assert capacity_of(found[profile], "memory") <= 2 * 1024 * MIB // part
        assert capacity_of(found[profile], "shares") == 10
        assert found[profile]["attributes"]["uuid"]["string"].startswith("MIG-")
        assert found[profile]["attributes"]["index"] == {"int": 1}
    (parent,) = {each["attributes"]["parentUUID"]["string"] for each in found.values()}
    assert parent.startswith("GPU-")
    assert parent != whole()["attributes"]["uuid"]["string"]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_claim_of_a_mig_device(split: Node, profile: str) -> None:
    """Its container is given that device alone, and what is claimed of it counts there until the claim is ended."""
    name = f"of-{profile.partition('.')[0]}"
    made = claim(name, 64, device_class=MIG_CLASS)
    of_profile = f"device.attributes['gpu.nvshare.com'].profile == '{profile}'"
    made["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": of_profile}}]
    apply(made, claiming(name, _SHOWING, shared=name))
    eventually("it runs", lambda: events(name), 60)
    environment, device = events(name)[0]["environment"], by_profile()[profile]
    assert environment["NVIDIA_VISIBLE_DEVICES"] == device["attributes"]["uuid"]["string"]
    assert environment["NVSHARE_MEMORY_LIMIT"] == str(64 * MIB)
    assert len(prepared(split)) == 1
    eventually("the scheduler knows it", lambda: claimed_bytes(device) == 64 * MIB, 30)
    tell_to_end(name)
    assert ended(name) == "Succeeded", log(name)
    eventually("it is ended", lambda: not prepared(split), 60)
    eventually("the scheduler knows that", lambda: claimed_bytes(device) == 0, 30)


def test_the_class_for_gpus_gives_whole_ones(split: Node) -> None:
    """A claim waits once all of the whole GPU is claimed, though MIG devices have room; a program can use its share."""
    most = capacity_of({"capacity": {"most": {"value": whole_request()["max"]}}}, "most") // MIB
    assert capacity_of(whole(), "memory") == 2 * most * MIB
    names = ["first", "second"]
    apply(template("most", most), template("least", 64), *(claiming(name, _SHOWING, own="most") for name in names))
    eventually("both run", lambda: {phase(name) for name in names} == {"Running"}, 90)
    apply(claiming("waits", _SHOWING, own="least"))
    eventually("its event says why", lambda: "cannot allocate all claims" in events_of("waits"), 60)
    for name in names:
        eventually("it has begun", lambda name=name: events(name), 60)
        assert events(name)[0]["environment"]["NVIDIA_VISIBLE_DEVICES"] == whole()["attributes"]["uuid"]["string"]
    delete(*names, "waits")
    apply(claiming("uses", using_all(1), own="most"))
    assert ended("uses") == "Succeeded", log("uses")
    assert events("uses")[0]["have"] == most


def whole_request() -> Object:
    """What one request may have of the whole GPU's memory."""
    found: Object = whole()["capacity"]["memory"]["requestPolicy"]["validRange"]
    return found
