"""The right to give out all GPUs of the node: the driver's, and that of each resource that a plugin would have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nvshare.deviceplugin.kubelet.instance_lock import InstanceLock, lock_file


class Turn:
    """The locks of these resources together; two that want the same ones take them in the same order."""

    def __init__(self, kubelet_dir: Path, owner: str) -> None:
        """``kubelet_dir``: that of device plugins, where their locks are. ``owner``: what others are told who wait."""
        self._dir = kubelet_dir
        self._owner = owner
        self._locks: dict[str, InstanceLock] = {}
        self.waits = False
        """Whether another instance has one of them."""

    def take(self, names: Iterable[str]) -> str | None:
        """Takes those that we have not yet; what keeps us from it, for people; None: all are ours.

        To be called again and again: kubelet deletes the locks when it begins.
        """
        self.waits = False
        for name in names:
            lock = self._locks.setdefault(name, InstanceLock(lock_file(self._dir, name), self._owner))
            try:
                if not lock.try_acquire():
                    self.waits = True
                    return f"waiting for another instance to end, which serves {name}: {lock.holder()}"
            except OSError as error:
                return f"waiting: {self._dir} can't be used: {error.strerror}"
        return None

    def release(self) -> None:
        """Lets others in."""
        for lock in self._locks.values():
            lock.release()
        self._locks.clear()
