"""Who waits for a device and may come in when it is its turn, seen from the first in line or from the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nvshare.scheduler.core.lock.turns import Turns
from nvshare.scheduler.core.records.client import Client, Unit
from nvshare.scheduler.core.transitions import ClientState


class Comers:
    """Those in line but for those that are passed over, together those that come in together. Nobody is looked at
    before it is asked for, so that a look costs the same however many wait."""

    def __init__(self, turns: Turns, may_come: Callable[[Unit], bool]) -> None:
        self._turns, self._may_come = turns, may_come

    def __iter__(self) -> Iterator[tuple[Client, ...]]:
        return (unit.coming for unit in self._turns.in_turn() if self._may_come(unit))

    def __reversed__(self) -> Iterator[tuple[Client, ...]]:
        return (unit.coming for unit in self._turns.last_first() if self._may_come(unit))

    def __contains__(self, client: Client) -> bool:
        waits = client.state is ClientState.WAITING and client.unit in self._turns
        return waits and not self._turns.is_passed_over(client.unit) and self._may_come(client.unit)
