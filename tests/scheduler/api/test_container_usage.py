"""What each container did on each GPU: counted for the right one, and never less than before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nvshare.scheduler.api.container_usage import ContainerUsage, Done
from nvshare.scheduler.core.events import Policy
from nvshare.scheduler.core.snapshot import ClientSnapshot, DeviceSnapshot, ShownState, SwapSnapshot, Totals
from nvshare.scheduler.pods.identity import Identity, Source

GPU = "GPU-a"
POD = Identity("space", "pod-1", "main", Source.KERNEL)
LABELS = (GPU, "space", "pod-1", "main")


class Clients:
    """Clients of one GPU, as the core and the registrar know them."""

    def __init__(self) -> None:
        self.time = 0.0
        self._known: dict[int, Any] = {}
        self._there: dict[int, ClientSnapshot] = {}
        self._usage = ContainerUsage(lambda: self._known, lambda: self.time)

    def are(self, number: int, held: float, identity: Identity = POD, container: str = "", moved: int = 0) -> None:
        """A client that is there, and has held for so long since it came."""
        swap = SwapSnapshot(0, 0, 0, 0, 0, 0, 0, came_bytes=moved, left_bytes=2 * moved)
        state = ShownState.HOLDING
        self._known[number] = SimpleNamespace(device=GPU, description=SimpleNamespace(identity=identity))
        self._there[number] = ClientSnapshot(
            number, state, 0, 0, True, held, held / 2, 1, swap=swap, container=container
        )

    def end(self, number: int) -> None:
        """It is gone."""
        self._usage.leaving(number, self._there.pop(number))
        del self._known[number]

    def seen(self) -> dict[tuple[str, ...], Done]:
        """What a scrape shows."""
        device = DeviceSnapshot(GPU, 0, 0, Policy.AUTO, 30.0, None, False, tuple(self._there.values()), Totals())
        return {usage.labels: usage.done for usage in self._usage.now((device,))}

    def held(self, container: str) -> float:
        """How long one in no pod has held."""
        return self.seen()[GPU, "", "", container].held_seconds


def test_clients_of_one_container_are_added_up() -> None:
    """Whatever a scrape has seen of them before."""
    clients = Clients()
    clients.are(1, 10.0, moved=7)
    clients.are(2, 4.0)
    assert clients.seen() == {LABELS: Done(14.0, 7.0, 2, 7, 14)}
    clients.are(1, 11.0, moved=9)
    assert clients.seen() == {LABELS: Done(15.0, 7.5, 2, 9, 18)}


def test_end_of_a_client_takes_nothing_away() -> None:
    """All that it did until its end counts, whether a scrape has seen it or not."""
    clients = Clients()
    clients.are(1, 10.0)
    clients.are(2, 4.0)
    assert clients.seen()[LABELS].held_seconds == 14.0
    clients.are(1, 13.0)
    clients.end(1)
    assert clients.seen() == {LABELS: Done(17.0, 8.5, 2)}
    clients.are(3, 5.0)
    clients.end(3)
    assert clients.seen()[LABELS].held_seconds == 22.0


def test_who_it_is_becomes_known_later() -> None:
    """What a client did before stays where it was counted, and only what it does then counts for its pod."""
    clients = Clients()
    clients.are(1, 1.0, Identity(), "pid:17@1000")
    assert clients.held("@1000") == 1.0
    clients.are(1, 3.0)
    assert clients.held("@1000") == 1.0
    assert clients.seen()[LABELS].held_seconds == 2.0


def test_outside_of_pods() -> None:
    """A name that processes say is shown; those that say none count as one for each user; a claim makes no pod."""
    clients = Clients()
    clients.are(1, 1.0, Identity(), "train@1000")
    clients.are(2, 2.0, Identity(), "pid:17@1000")
    clients.are(3, 4.0, Identity(), "pid:18@1000")
    clients.are(4, 8.0, Identity("space", "claimed", source=Source.HINT), "")
    expected = {"train@1000": 1.0, "@1000": 6.0, "": 8.0}
    assert {name: clients.held(name) for name in expected} == expected
    assert len(clients.seen()) == 3


def test_a_claim_is_one() -> None:
    """Whatever pods its clients are in; another GPU's part of it has the same name there."""
    clients = Clients()
    for number, pod in ((1, "pod-1"), (2, "pod-2")):
        clients.are(number, 2.0, Identity("space", pod, "main", Source.KERNEL), "claim:space/share")
    clients.are(3, 1.0, Identity("space", "pod-3", "main", Source.KERNEL), f"claim:space/other@{GPU}")
    assert {labels: done.held_seconds for labels, done in clients.seen().items()} == {
        (GPU, "space", "", "claim:share"): 4.0,
        (GPU, "space", "", "claim:other"): 1.0,
    }


def test_series_of_a_container_that_has_ended() -> None:
    """They stay for the next scrapes, and are gone then; a pod that is there is shown however long it does nothing."""
    clients = Clients()
    clients.are(1, 1.0)
    clients.are(2, 1.0, Identity("space", "pod-2", "main", Source.KERNEL))
    clients.seen()
    clients.end(1)
    clients.time = 299.0
    assert len(clients.seen()) == 2
    clients.time = 301.0
    assert [labels[2] for labels in clients.seen()] == ["pod-2"]
    clients.time = 900.0
    assert len(clients.seen()) == 1


def test_number_of_series_is_bounded() -> None:
    """Pods, and names that processes say, which take no pod's place; nothing of what they did is lost."""
    clients = Clients()
    for number in range(400):
        clients.are(number, 1.0, Identity(), f"name-{number}@0")
        clients.end(number)
    assert len(clients.seen()) == 251
    assert clients.held("") == 150.0
    for number in range(400):
        clients.are(number, 1.0, Identity("space", f"pod-{number}", "main", Source.KERNEL))
    assert len(clients.seen()) == 501
    assert clients.held("") == 300.0
