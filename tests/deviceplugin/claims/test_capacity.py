"""What claims may have of a GPU: never more than there is, and always as the API takes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.deviceplugin.claims.capacity import STEP_BYTES, Capacity, capacity, document, own_bytes
from tests.deviceplugin.claims.api_rules import mistakes

GIB = 1 << 30
SIZES = st.integers(0, 300 * GIB)
SHARES = st.integers(1, 1000)


def found(own: int, host: int = 0, shares: int = 10, held: int = 0, overcommit: float = 1.0) -> Capacity:
    made = capacity(own, host, shares, held, overcommit)
    assert made is not None
    return made


@given(own=SIZES, host=SIZES, shares=SHARES, data=st.data(), overcommit=st.floats(1, 10))
def test_whatever_a_gpu_has(own: int, host: int, shares: int, data: st.DataObject, overcommit: float) -> None:
    """The API takes it; claims have no more than the GPU and its host memory, and no more than overcommitted."""
    held = data.draw(st.integers(0, shares + 3))
    made = capacity(own, host, shares, held, overcommit)
    if made is None:
        assert held or own < STEP_BYTES
        return
    device = {"name": "gpu-a", "attributes": {}, "capacity": document(made)}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    assert mistakes({"spec": {"pool": pool, "devices": [device]}}) == []
    assert STEP_BYTES <= made.memory_bytes <= min(own * overcommit, own + host)
    assert made.most_bytes <= min(own, made.memory_bytes)
    assert made.shares == shares - held >= 1
    assert 0 <= made.own_bytes <= own
    assert all(each % STEP_BYTES == 0 for each in (made.memory_bytes, made.most_bytes, made.default_bytes))


@given(own=SIZES, host=SIZES, shares=SHARES, held=st.integers(0, 999), overcommit=st.floats(1, 10))
def test_a_virtual_device_more(own: int, host: int, shares: int, held: int, overcommit: float) -> None:
    """What a pod of the plugin has more, claims have less: never more of anything."""
    fewer, more = capacity(own, host, shares, held, overcommit), capacity(own, host, shares, held + 1, overcommit)
    if more is not None:
        assert fewer is not None
        assert more.memory_bytes <= fewer.memory_bytes - STEP_BYTES
        assert more.shares == fewer.shares - 1
        assert more.own_bytes <= fewer.own_bytes
        assert more.default_bytes <= fewer.default_bytes


def test_a_gpu_of_80_gib() -> None:
    """By the words of the API."""
    own = own_bytes(80 * GIB, 2 * GIB, 0, GIB // 2, 10)
    assert own == 73 * GIB
    assert document(found(own)) == {
        "memory": {
            "value": "73Gi",
            "requestPolicy": {"default": "7424Mi", "validRange": {"min": "64Mi", "max": "73Gi", "step": "64Mi"}},
        },
        "shares": {"value": "10", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}}},
    }


def test_overcommitted() -> None:
    """More than the GPU in all, as far as host memory goes; no request is more than the GPU."""
    assert found(10 * GIB, 50 * GIB, overcommit=2.5).memory_bytes == 25 * GIB
    assert found(10 * GIB, 5 * GIB, overcommit=2.5).memory_bytes == 15 * GIB
    assert found(10 * GIB, 5 * GIB, overcommit=2.5).most_bytes == 10 * GIB


def test_held_by_the_plugins_pods() -> None:
    """Three of ten virtual devices are three tenths of all."""
    made = found(10 * GIB, held=3)
    assert (made.shares, made.memory_bytes, made.default_bytes) == (7, 7 * GIB, GIB)
    assert made.own_bytes == pytest.approx(7 * GIB, abs=10)


def test_one_share() -> None:
    """A GPU for one at a time: its one request has all of it."""
    made = found(10 * GIB, shares=1)
    assert made.default_bytes == made.most_bytes == 10 * GIB
    assert "step" not in document(made)["shares"]["requestPolicy"]["validRange"]


def test_nothing_left() -> None:
    """No memory, or no share."""
    assert capacity(STEP_BYTES - 1, 0, 10, 0, 1) is None
    assert capacity(10 * GIB, 0, 10, 10, 1) is None
    assert own_bytes(GIB, 0, 2 * GIB, 0, 1) == 0


def test_contexts_take_a_quarter_at_the_most() -> None:
    """A hundred contexts of half a GiB would take all of a GPU of 16 GiB."""
    assert own_bytes(16 * GIB, 0, 0, GIB // 2, 100) == 12 * GIB
