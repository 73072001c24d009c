"""Which containers have series of their own in the metrics, and under which labels."""

from __future__ import annotations

from collections.abc import Callable

from nvshare.container_names import CLAIM, PROCESS, claim_of
from nvshare.scheduler.pods.identity import Identity, Source

LABELS = ("gpu", "namespace", "pod", "container")
Labels = tuple[str, str, str, str]

_KEPT_SECONDS = 300.0
"""How long the series of a container that is gone are still shown: longer than anybody scrapes apart."""
_MOST_PLACES = 500
"""Containers with series of their own, counted on each GPU; what more of them do is counted without their names."""
_MOST_OUTSIDE = _MOST_PLACES // 2
"""With more than so many, one that is in no pod gets none: what processes say is to take no pod's place."""


def in_pod(device: str, identity: Identity, account: str) -> Labels:
    """The labels of who is in a pod by the kernel's word, on a device; without names for any other.

    Those of the container, or of the claim by which it uses the device if that is the account.
    """
    if claim := claim_of(account):
        namespace, _, name = claim.partition("/")
        return device, namespace, "", f"{CLAIM}{name}"
    if identity.source is not Source.KERNEL:
        return device, "", "", ""
    return device, identity.namespace, identity.pod, identity.container


def outside(device: str, member_of: str) -> Labels:
    """The labels of a container in no pod, by what the core calls it: ``NAME@UID`` or ``pid:N@UID``.

    There are as many pids as processes, so of those that say no name all of a user count as one: ``@UID``.
    """
    name, at, uid = member_of.rpartition("@")
    return device, "", "", f"@{uid}" if at and name.startswith(PROCESS) else member_of


def is_one(labels: Labels) -> bool:
    """Whether they are those of one container, and not of several that count as one."""
    _gpu, namespace, pod, container = labels
    return bool(namespace or pod or container.rpartition("@")[0])


class Places:
    """A bounded number of containers, each until a while after it was of use last."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._used: dict[Labels, float] = {}

    def admit(self, labels: Labels) -> Labels:
        """The labels under which a container counts now: its own, or those of nobody where there is no room."""
        most = _MOST_PLACES if labels[1] or labels[2] else _MOST_OUTSIDE
        if not any(labels[1:]) or (labels not in self._used and len(self._used) >= most):
            return labels[0], "", "", ""
        self._used[labels] = self._now()
        return labels

    def expire(self) -> list[Labels]:
        """Those that were of no use for long; each is told once."""
        now = self._now()
        old = [labels for labels, used in self._used.items() if now - used > _KEPT_SECONDS]
        for labels in old:
            del self._used[labels]
        return old
