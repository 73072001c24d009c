"""From uid and container id to names, by kubelet's folders of logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvshare.scheduler.pods.cgroups import Place
from nvshare.scheduler.pods.pod_names import Names, RememberedNames, names_of

UID = "d8e2a9b4-0c51-4f5e-9c7e-3b1f0a6d2e11"
ID = "86f54cfd2b47e1cf5b7879f56ce576767d24e65f938f3612c4a59b8599439944"
SECOND_ID = "5" * 64
LONGEST_NAME = 251


class Logs:
    """A node's /var/log, as kubelet keeps it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "pods").mkdir()
        (root / "containers").mkdir()

    def add(self, namespace: str, pod: str, uid: str, container: str, container_id: str | None) -> None:
        """A container's folder and, once it runs, the link to its log."""
        folder = self.root / "pods" / f"{namespace}_{pod}_{uid}" / container
        folder.mkdir(parents=True)
        if container_id is not None:
            name = f"{pod}_{namespace}_{container}-{container_id}"[:LONGEST_NAME]
            (self.root / "containers" / f"{name}.log").symlink_to(
                f"/var/log/pods/{namespace}_{pod}_{uid}/{container}/0.log"
            )


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def test_one_of_several_containers(logs: Logs) -> None:
    """The link with the container's id says which; other pods' are not looked at."""
    logs.add("vision", "detector", UID, "side-car", SECOND_ID)
    logs.add("vision", "detector", UID, "main", ID)
    logs.add("vision", "other", "11111111-2222-3333-4444-555555555555", "main", "7" * 64)
    assert names_of(Place(UID, ID), logs.root) == Names("vision", "detector", "main")
    assert names_of(Place(UID, SECOND_ID), logs.root) == Names("vision", "detector", "side-car")


def test_link_not_made_yet(logs: Logs) -> None:
    """A process may be faster than the link: the only container it can be in, or none."""
    logs.add("vision", "detector", UID, "main", None)
    assert names_of(Place(UID, ID), logs.root) == Names("vision", "detector", "main")
    logs.add("vision", "detector", UID, "side-car", None)
    assert names_of(Place(UID, ID), logs.root) == Names("vision", "detector", "")


def test_name_that_was_cut(logs: Logs) -> None:
    """A name too long for a file loses the end of the id; the rest of it is enough where it is unique."""
    pod = "p" * 200
    logs.add("vision", pod, UID, "main", ID)
    logs.add("vision", pod, UID, "side-car", SECOND_ID)
    assert names_of(Place(UID, ID), logs.root) == Names("vision", pod, "main")


def test_another_pods_link(logs: Logs) -> None:
    """A link counts only if it leads into the pod's own folder."""
    logs.add("vision", "detector", UID, "main", None)
    logs.add("vision", "detector", UID, "side-car", None)
    logs.add("vision", "other", "11111111-2222-3333-4444-555555555555", "main", ID)
    assert names_of(Place(UID, ID), logs.root) == Names("vision", "detector", "")


def test_nothing_to_be_found(logs: Logs, tmp_path: Path) -> None:
    """A pod that kubelet does not know, and a host whose logs are not mounted."""
    logs.add("vision", "detector", "11111111-2222-3333-4444-555555555555", "main", ID)
    assert names_of(Place(UID, ID), logs.root) is None
    assert names_of(Place(UID, ID), tmp_path / "missing") is None


def test_names_are_remembered(logs: Logs) -> None:
    """A container is looked for until it is found, and then no more."""
    looks = 0

    def look(place: Place, root: Path) -> Names | None:
        nonlocal looks
        looks += 1
        return names_of(place, root)

    remembered = RememberedNames(look)
    place = Place(UID, ID)
    assert remembered.names_of(place, logs.root) is None
    logs.add("space", "pod-1", UID, "main", ID)
    for _ in range(3):
        assert remembered.names_of(place, logs.root) == Names("space", "pod-1", "main")
    assert looks == 2
    for number in range(2000):
        remembered.names_of(Place(UID, f"{number:064}"), logs.root)
    assert looks == 2002
    remembered.names_of(place, logs.root)
    assert looks == 2003
