"""The resources that the node offers, each with a lifecycle of its own; several only where MIG profiles name them.

A resource stays until the end: a GPU that was offered once stays offered, unhealthy at worst.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nvshare.deviceplugin.devices import Snapshot
from nvshare.deviceplugin.kubelet.inventory import Inventory
from nvshare.deviceplugin.kubelet.lifecycle import Lifecycle


class Resources:
    """Keeps each resource of the inventory registered with kubelet until ``stop``."""

    def __init__(self, inventory: Inventory, new_lifecycle: Callable[[str], Lifecycle]) -> None:
        """``new_lifecycle`` makes that of a resource by its name. Needs a running event loop."""
        self._inventory = inventory
        self._new_lifecycle = new_lifecycle
        self._lifecycles: dict[str, Lifecycle] = {}
        self._stopped = asyncio.Event()

    @property
    def serve(self) -> bool:
        """Whether we are the one that answers kubelet, for any of them."""
        return any(lifecycle.serves for lifecycle in self._lifecycles.values())

    def unready(self) -> list[str]:
        """Those that kubelet does not watch and for which we are not prepared to follow another instance, with why."""
        # A copy: probes are answered in another thread.
        lifecycles = dict(self._lifecycles)
        states = dict.fromkeys(self._inventory.snapshot.resource_names, "starting")
        states |= {name: lifecycle.state for name, lifecycle in lifecycles.items()}
        ready = {name for name, lifecycle in lifecycles.items() if lifecycle.ready}
        return [
            f"{name} is not registered with kubelet: {state}" for name, state in states.items() if name not in ready
        ]

    def stop(self) -> None:
        """Ends ``run`` soon, in order; another instance that waits follows."""
        self._stopped.set()
        for lifecycle in self._lifecycles.values():
            lifecycle.stop()

    async def run(self) -> None:
        """Registers each as soon as there is a GPU of it."""
        seen = Snapshot()
        async with asyncio.TaskGroup() as group:
            while not await self._stopped_before_newer_than(seen):
                seen = self._inventory.snapshot
                for name in seen.resource_names:
                    if name not in self._lifecycles:
                        self._lifecycles[name] = self._new_lifecycle(name)
                        group.create_task(self._lifecycles[name].run())

    async def _stopped_before_newer_than(self, seen: Snapshot) -> bool:
        newer = asyncio.create_task(self._inventory.newer_than(seen))
        stop = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({newer, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            newer.cancel()
            stop.cancel()
        return self._stopped.is_set()
