"""Whose a process is, as far as equal memory of several may be kept once."""

from __future__ import annotations

from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Source


def owner_of(shown: Description) -> str:
    """The same text for processes of one owner: a namespace of the cluster, outside of pods a user; empty: not known.

    Only the kernel's word counts: of a process that a pid namespace hides nothing is known.
    """
    identity = shown.identity
    if identity.source is Source.KERNEL:
        return f"namespace {identity.namespace}" if identity.namespace else ""
    if shown.namespaces is None or shown.uid < 0:
        return ""
    return f"user {shown.uid}"
