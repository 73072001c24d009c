"""The names of a pod and a container, from the ids that the kernel gives, by where kubelet keeps their logs.

kubelet makes ``/var/log/pods/NAMESPACE_POD_UID/CONTAINER/`` before a container starts, and right after that a link
``/var/log/containers/..._CONTAINER-ID.log`` to the log in there. So both need read access to these folders of the host,
and no access to the Kubernetes API. (kubelet's pod resources socket knows neither uid nor container id, and what a
process says of itself, its host name included, is no proof.)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nvshare.scheduler.pods.cgroups import Place

_REMEMBERED = 1024
"""More containers than a node has."""


@dataclass(frozen=True, slots=True)
class Names:
    """As the Kubernetes API has them."""

    namespace: str
    pod: str
    container: str
    """Empty if it can't be found."""


NamesOf = Callable[[Place, Path], Names | None]


def names_of(place: Place, logs: Path) -> Names | None:
    """The names of a place; ``logs`` is the host's ``/var/log``. None where kubelet's folders can't be read."""
    try:
        folder = next((logs / "pods").glob(f"*_*_{place.pod_uid}"), None)
        if folder is None:
            return None
        namespace, pod, _uid = folder.name.split("_")
        return Names(namespace, pod, _container(place, folder, logs))
    except (OSError, ValueError):
        return None


class RememberedNames:
    """The names of the places that were asked for last. A container has an id of its own: its names never change."""

    def __init__(self, look: NamesOf) -> None:
        """``look`` finds names that are not remembered."""
        self._look = look
        self._known: OrderedDict[tuple[Place, Path], Names] = OrderedDict()

    def names_of(self, place: Place, logs: Path) -> Names | None:
        """As the function of this name. What could not be found yet is looked for again."""
        asked = place, logs
        names = self._known.pop(asked, None) or self._look(place, logs)
        if names is not None and names.container and place.container_id:
            self._known[asked] = names
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return names


def _container(place: Place, folder: Path, logs: Path) -> str:
    """The name in the link that has the id in its own; without such a link (yet), the name of the only container."""
    linked = set(_linked(place, folder, logs / "containers"))
    candidates = linked or {entry.name for entry in folder.iterdir() if entry.is_dir()}
    return candidates.pop() if len(candidates) == 1 else ""


def _linked(place: Place, folder: Path, links: Path) -> Iterator[str]:
    if not place.container_id or not links.is_dir():
        return
    for link in links.iterdir():
        # kubelet cuts names that are longer than a file's may be, and the id is what they end with.
        container_id = link.stem.rpartition("-")[2]
        if container_id and place.container_id.startswith(container_id):
            target = link.readlink()
            if target.parent.parent.name == folder.name:
                yield target.parent.name
