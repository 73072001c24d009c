"""Nodes whose container runtime learns of devices by CDI: the driver comes with the device, not with the plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.e2e.conftest import GPUS
from tests.e2e.kubectl import SYSTEM, Object, apply, configure, eventually, get, scheduler_status
from tests.e2e.node import LIBRARIES, POD, STATE, Node
from tests.e2e.programs import (
    VERSION,
    computing_until_told,
    delete,
    end_well,
    kill_all_but,
    pod,
    running,
    tell_to_end,
)

pytestmark = pytest.mark.timeout(240)

KIND = "nvshare.test/simulated"
DRIVER = "/usr/lib/simulated-driver"


@pytest.fixture(scope="module")
def described(simulated: Node) -> Iterator[Node]:
    """A node with a CDI specification of its GPUs; afterwards the plugin's settings are what they were."""
    kill_all_but(POD)
    before = yaml.safe_load(get("configmap", "nvshare-device-plugin", namespace=SYSTEM)["data"]["config.yaml"])
    devices = [_device(uuid) for uuid in simulated.uuids()]
    simulated.describe_devices("simulated", {"cdiVersion": "0.5.0", "kind": KIND, "devices": devices})
    yield simulated
    configure({"device_list_strategy": ["envvar"], "cdi_kind": "nvidia.com/gpu", **before})


@pytest.mark.parametrize("strategy", ["cdi-cri", "cdi-annotations"])
def test_devices_by_cdi(described: Node, strategy: str) -> None:
    """A pod has its one GPU's driver and variables from the specification, beside nvshare's device: it is a client.

    That device's LD_PRELOAD replaces the pod's own.
    """
    configure({"device_list_strategy": [strategy], "cdi_kind": KIND, "extra_mounts": [], "extra_env": {}})
    names = [f"{strategy}-{number}" for number in range(GPUS)]
    apply(*(pod(name, computing_until_told(), environment={"LD_PRELOAD": "/no/such.so"}) for name in names))
    try:
        assert {running(name).device for name in names} == set(described.uuids())
        eventually("both are clients", lambda: _clients() == set(names), 20)
        for name in names:
            tell_to_end(name)
        end_well(names)
    finally:
        delete(*names)


def _device(uuid: str) -> Object:
    mounts = [
        {"hostPath": f"{LIBRARIES}/simulated-{VERSION}", "containerPath": DRIVER, "options": ["ro", "bind"]},
        {"hostPath": STATE, "containerPath": STATE, "options": ["rw", "bind"]},
    ]
    variables = [f"NVIDIA_VISIBLE_DEVICES={uuid}", f"LD_LIBRARY_PATH={DRIVER}", f"NVSHARE_SIMGPU_DIR={STATE}"]
    return {"name": uuid, "containerEdits": {"env": variables, "mounts": mounts}}


def _clients() -> set[str]:
    return {client["pod"] for device in scheduler_status()["devices"] for client in device["clients"]}
