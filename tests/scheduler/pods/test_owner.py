"""Whose a process is."""

from __future__ import annotations

import pytest

from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity, Source
from nvshare.scheduler.pods.owner import owner_of


@pytest.mark.parametrize(
    ("identity", "namespaces", "owner"),
    [
        (Identity("team", "pod", "main", Source.KERNEL), "/kubepods", "namespace team"),
        (Identity(pod="uid", source=Source.KERNEL), "/kubepods", ""),
        (Identity("team", "pod", source=Source.HINT), None, ""),
        (Identity(), "", "user 1000"),
        (Identity(), "/docker", "user 1000"),
        (Identity(), None, ""),
    ],
    ids=["pod", "pod without a name", "what it says", "user", "container", "hidden"],
)
def test_owner(identity: Identity, namespaces: str | None, owner: str) -> None:
    """Processes that are hidden, and pods whose names are not known, are nobody's."""
    assert owner_of(Description(1, "", identity, 1000, namespaces=namespaces)) == owner


def test_before_it_is_known() -> None:
    assert owner_of(Description(1, "", Identity())) == ""
