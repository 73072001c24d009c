"""Ids of virtual devices, and the snapshot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.deviceplugin.devices import BadDeviceIdError, Offer, Snapshot, VirtualDevice, is_index, is_uuid, parse

GPU = "GPU-6f1b7d8e-2c07-4a3d-9d9f-01b1a2c3d4e5"
MIG = "MIG-2f9d1b6c-7d53-5c2b-8a41-0c1d2e3f4a5b"


@given(st.sampled_from([GPU, MIG, "GPU-0"]), st.integers(1, 9999))
def test_an_id_says_what_it_stands_for(uuid: str, ordinal: int) -> None:
    """Every virtual device's id is read back as the same virtual device."""
    device = VirtualDevice(uuid, ordinal)
    assert parse(device.id) == device
    assert len(device.id) <= 63


@pytest.mark.parametrize(
    "text",
    ["", GPU, f"{GPU}__", f"{GPU}__0", f"{GPU}__01", f"{GPU}__-1", f"{GPU}__x", f"{GPU}_1", f"{GPU}__1__2", "0__1"],
)
def test_other_texts_are_no_ids(text: str) -> None:
    """The message repeats the text and says what an id looks like."""
    with pytest.raises(BadDeviceIdError, match="UUID__ORDINAL") as error:
        parse(text)
    assert repr(text) in str(error.value)


def test_ordinals_begin_at_one() -> None:
    """A GPU with three virtual devices has 1, 2 and 3."""
    assert [device.id for device in Offer(GPU, 3).devices()] == [f"{GPU}__1", f"{GPU}__2", f"{GPU}__3"]


def test_snapshot_knows_its_devices() -> None:
    """A device is in the snapshot when its GPU is offered that often."""
    snapshot = Snapshot((Offer(GPU, 2), Offer(MIG, 1)))
    assert VirtualDevice(GPU, 2) in snapshot
    assert VirtualDevice(GPU, 3) not in snapshot
    assert VirtualDevice("GPU-other", 1) not in snapshot
    assert snapshot.total(GPU) == 2
    assert snapshot.total("GPU-other") == 0


def test_order_is_that_of_the_offers() -> None:
    """UUIDs come once each, in the order of the GPUs, strangers last."""
    snapshot = Snapshot((Offer(MIG, 1), Offer(GPU, 2)))
    assert snapshot.in_order([GPU, "GPU-z", MIG, GPU, "GPU-a"]) == (MIG, GPU, "GPU-a", "GPU-z")


def test_parts_of_a_snapshot() -> None:
    """What is offered under one name, which alone counts there; each name once."""
    whole, other, part = Offer(GPU, 2), Offer("GPU-b", 1), Offer(MIG, 3, resource_name="part")
    snapshot = Snapshot((whole, part, other))
    assert snapshot.resource_names == ("nvshare.com/gpu", "part")
    assert snapshot.of("nvshare.com/gpu") == Snapshot((whole, other))
    assert [snapshot.of(name).total(MIG) for name in ("nvshare.com/gpu", "part", "none")] == [0, 3, 0]


def test_snapshots_compare_by_what_they_offer() -> None:
    """Equal offers make equal snapshots; another health makes another one."""
    assert Snapshot((Offer(GPU, 2),)) == Snapshot((Offer(GPU, 2),))
    assert Snapshot((Offer(GPU, 2),)) != Snapshot((Offer(GPU, 2, "XID 79"),))


def test_names_of_gpus() -> None:
    """UUIDs of GPUs and MIG devices, and indices with or without a MIG device."""
    assert all(is_uuid(text) for text in (GPU, MIG))
    assert not any(is_uuid(text) for text in ("", "0", "GPU-", "gpu-1", f"{GPU}__1", "GPU-a/b"))
    assert all(is_index(text) for text in ("0", "15", "0:1"))
    assert not any(is_index(text) for text in ("", "-1", "0:", "a", "0:1:2"))
