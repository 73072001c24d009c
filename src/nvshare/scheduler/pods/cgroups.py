"""From the text of ``/proc/PID/cgroup`` to the pod and the container that the kernel keeps a process in. Pure.

kubelet and the container runtimes put a process at one of these places, below whatever the node itself is in:

========================== =====================================================================================
driver and runtime         path
========================== =====================================================================================
cgroupfs, containerd       ``/kubepods/burstable/podUID/ID``
cgroupfs, CRI-O            ``/kubepods/burstable/podUID/crio-ID``
systemd, any               ``/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/NAME-ID.scope``
systemd asked of cgroupfs  ``/system.slice/containerd.service/kubepods-burstable-podU_I_D.slice:cri-containerd:ID``
========================== =====================================================================================

A reader in a cgroup namespace of its own sees the path from there: ``/../../podUID/ID``. A container can make cgroups
of any name below its own, so the pod that is named first counts, and the container that comes right after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_POD = re.compile(
    r"(?:/|-)pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})"
    r"(?:\.slice)?(?=[/:]|$)"
)
"""The second form is that of pods that kubelet runs from files."""
_CONTAINER = re.compile(r"[/:](?:[a-z-]+[-:])?([0-9a-f]{64})(?:\.scope)?(?=/|$)")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process is."""

    pod_uid: str
    """As the API writes it, with dashes."""
    container_id: str
    """Empty for a process of the pod that is in none of its containers."""


def place_of(cgroup: str) -> Place | None:
    """The place that the text names, in version 1 or 2; None: not in a pod."""
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        if pod := _POD.search(path):
            container = _CONTAINER.match(path, pod.end())
            return Place(pod[1].replace("_", "-"), container[1] if container else "")
    return None
