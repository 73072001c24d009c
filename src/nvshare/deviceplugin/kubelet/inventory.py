"""What is offered to kubelet now; ListAndWatch streams wait here for changes. Lives in the event loop's thread."""

from __future__ import annotations

import asyncio

from nvshare.deviceplugin.devices import Snapshot


class Inventory:
    """The present snapshot, and a way to wait for the next."""

    def __init__(self) -> None:
        self._snapshot = Snapshot()
        self._changed = asyncio.Event()

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    def publish(self, snapshot: Snapshot) -> bool:
        """Offers this snapshot from now on; False when it is what was offered already."""
        if snapshot == self._snapshot:
            return False
        self._snapshot = snapshot
        self._changed.set()
        self._changed = asyncio.Event()
        return True

    async def newer_than(self, seen: Snapshot) -> Snapshot:
        """The first snapshot that differs from the one seen."""
        while self._snapshot == seen:
            await self._changed.wait()
        return self._snapshot


class Part:
    """What of an inventory is offered under one resource name."""

    def __init__(self, whole: Inventory, resource_name: str) -> None:
        self._whole = whole
        self._resource_name = resource_name

    @property
    def snapshot(self) -> Snapshot:
        return self._whole.snapshot.of(self._resource_name)

    async def newer_than(self, seen: Snapshot) -> Snapshot:
        """The first snapshot that differs from the one seen."""
        while (now := self.snapshot) == seen:
            await self._whole.newer_than(self._whole.snapshot)
        return now
