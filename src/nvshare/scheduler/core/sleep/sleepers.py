"""Those of one device whose processes can sleep, as the rules of admission ask for them."""

from __future__ import annotations

from nvshare.scheduler.core.records.client import Client
from nvshare.scheduler.core.sleep.sleeping import Sleeping


class Sleepers:
    """See ``memory.admission.Sleepers``."""

    def __init__(self, sleeping: Sleeping, device: str) -> None:
        self._sleeping, self._device = sleeping, device

    def able(self, beside: Client | None) -> list[Client]:
        """See ``memory.admission.Sleepers``."""
        own = None if beside is None else beside.process
        there, relief = self._sleeping.on(self._device).values(), self._sleeping.relief
        return [client for client, process in there if process is not own and relief.could_sleep(process)]

    @property
    def coming_back(self) -> list[Client]:
        """See ``memory.admission.Sleepers``."""
        there = self._sleeping.on(self._device)
        numbers = (number for process in self._sleeping.moving.values() for number in process.clients)
        return [there[number][0] for number in numbers if number in there and there[number][0].is_coming_back]

    def stays(self, client: Client) -> bool:
        """See ``memory.admission.Sleepers``."""
        return client.process is None or bool(self._sleeping.reasons.unwilling(client.process))

    def willing_bytes(self, client: Client | None) -> int:
        """See ``memory.admission.Sleepers``."""
        there = self._sleeping.on(self._device).values()
        willing = [each.memory for each, process in there if not self._sleeping.reasons.unwilling(process)]
        own = None if client is None else client.memory
        return sum(memory.context_bytes - (0 if memory is own else memory.ahead_bytes) for memory in willing)

    def most_bytes(self, beside: Client | None) -> int:
        """See ``memory.admission.Sleepers``."""
        own = None if beside is None else beside.process
        there = [each for each in self._sleeping.on(self._device).values() if each[1] is not own]
        could_sleep = self._sleeping.relief.could_sleep
        return sum(each.memory.context_bytes for each, one in there if one.comes or could_sleep(one, soon=True))
