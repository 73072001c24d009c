"""Several resources beside one kubelet."""

from __future__ import annotations

import asyncio
from pathlib import Path

from structlog.testing import CapturingLogger

from nvshare.deviceplugin.answers.allocation import Injection
from nvshare.deviceplugin.answers.preference import AllocationPolicy
from nvshare.deviceplugin.answers.requests import Rules
from nvshare.deviceplugin.devices import Offer, Snapshot
from nvshare.deviceplugin.kubelet.inventory import Inventory, Part
from nvshare.deviceplugin.kubelet.lifecycle import Lifecycle
from nvshare.deviceplugin.kubelet.resources import Resources
from nvshare.deviceplugin.kubelet.servicer import Servicer
from nvshare.deviceplugin.metrics import Metrics
from tests.deviceplugin.fake_kubelet import KubeletOfSeveral
from tests.deviceplugin.instances import QUICK
from tests.polling import until

GPU = Offer("GPU-a", 2)
SMALL = Offer("MIG-a", 3, resource_name="nvshare.com/mig-1g.10gb")


async def test_a_profile_that_comes_later(folder: Path) -> None:
    """It is registered when there is a MIG device of it, and until then nothing lacks; each sees its own changes."""
    inventory, metrics, log = Inventory(), Metrics(int), CapturingLogger()

    def new_lifecycle(name: str) -> Lifecycle:
        async def new_servicer() -> Servicer:
            injection = Injection(Path("/lib"), Path("/client"))
            part = Part(inventory, name)
            policy = AllocationPolicy.SPREAD
            return Servicer(part, Rules(name), injection, lambda: None, frozenset, policy, metrics, log)

        return Lifecycle(folder, name, "one", new_servicer, metrics, log, QUICK)

    kubelet = KubeletOfSeveral(folder)
    await kubelet.start()
    resources = Resources(inventory, new_lifecycle)
    run = asyncio.create_task(resources.run())
    assert (resources.unready(), resources.serve) == ([], False)
    inventory.publish(Snapshot((GPU,)))
    assert resources.unready() == ["nvshare.com/gpu is not registered with kubelet: starting"]
    await until(lambda: kubelet.has(gpu=2), "the GPU is known")
    await until(lambda: resources.unready() == [], "it is registered")
    assert resources.serve
    inventory.publish(Snapshot((GPU, SMALL)))
    assert len(resources.unready()) == 1
    await until(lambda: kubelet.has(gpu=2, mig_1g_10gb=3), "the profile is known")
    inventory.publish(Snapshot((GPU, Offer("MIG-a", 3, "sick", resource_name=SMALL.resource_name))))
    await until(lambda: kubelet.has(gpu=2, mig_1g_10gb=0), "the MIG device is unhealthy")
    assert [len(resource.updates) for resource in kubelet.resources.values()] == [1, 2]
    resources.stop()
    assert not resources.serve
    await run
    await kubelet.stop()


async def test_stopped_before_there_is_a_gpu(folder: Path) -> None:
    """It ends."""
    resources = Resources(Inventory(), lambda name: Lifecycle(folder, name, "one", None, None, None))  # type: ignore[arg-type]
    run = asyncio.create_task(resources.run())
    resources.stop()
    await asyncio.wait_for(run, 5)
