"""In which share of the time that clients held a device it executed something, as NVML says: sample by sample. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from nvshare.admin import admin_pb2

_HOLDING = ("holding", "leaving", "unresponsive")
_SAMPLES = 120


class Use:
    """The newest samples of each client."""

    def __init__(self) -> None:
        self._samples: dict[int, deque[float]] = {}

    def add(self, status: admin_pb2.Status, busy: Mapping[str, float]) -> None:
        """One more sample. ``busy``: by the devices' UUIDs, in which share of a moment ago something was executed.

        What several execute who hold at the same time is nobody's alone.
        """
        known = {client.id for device in status.devices for client in device.clients}
        self._samples = {number: samples for number, samples in self._samples.items() if number in known}
        for device in status.devices:
            holders = [client.id for client in device.clients if client.state in _HOLDING]
            if len(holders) == 1 and device.uuid in busy:
                self._samples.setdefault(holders[0], deque(maxlen=_SAMPLES)).append(busy[device.uuid])

    def shares(self) -> dict[int, float]:
        """By the clients' ids; who never held alone is missing."""
        return {number: sum(samples) / len(samples) for number, samples in self._samples.items()}
