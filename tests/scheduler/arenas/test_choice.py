"""What the operator says of host memory."""

from __future__ import annotations

import pytest

from nvshare.scheduler.arenas.choice import HALF, HostMemoryChoice, host_memory_of, shown

GIB = 1 << 30


@pytest.mark.parametrize(("text", "size_bytes"), [("16GiB", 16 * GIB), ("16G", 16 * 10**9), ("0", 0)])
def test_sizes(text: str, size_bytes: int) -> None:
    """They are read as everywhere."""
    assert host_memory_of(text) == HostMemoryChoice(size_bytes, None)


@pytest.mark.parametrize("text", ["", "16", "GiB", "-1GiB", "inf GiB", "many", "999999TiB", " 50%", "٣%", "5%%"])
def test_what_is_no_size(text: str) -> None:
    """The error says what is wrong with it, and how a share is written."""
    with pytest.raises(ValueError, match=f"{text!r} is .*50%"):
        host_memory_of(text)


def test_shares() -> None:
    """Of what the machine has free."""
    assert host_memory_of("50%") == HALF
    assert host_memory_of("100%").budget_bytes(8 * GIB, None) == 8 * GIB
    assert host_memory_of("0%").budget_bytes(8 * GIB, None) == 0
    assert [host_memory_of(text).asked_bytes(8 * GIB) for text in ("25%", "16GiB")] == [2 * GIB, 16 * GIB]
    with pytest.raises(ValueError, match="more than all of it"):
        host_memory_of("101%")


def test_what_the_cgroup_allows_bounds_a_share() -> None:
    """Half of the machine is more than a small container may have."""
    assert HALF.budget_bytes(100 * GIB, None) == 50 * GIB
    assert HALF.budget_bytes(100 * GIB, 8 * GIB) == 8 * GIB
    assert HALF.budget_bytes(100 * GIB, 60 * GIB) == 50 * GIB


def test_a_size_that_the_cgroup_does_not_allow_is_a_mistake() -> None:
    """The error names both numbers; a machine with less memory than the DaemonSet's others is none."""
    with pytest.raises(ValueError, match=r"--host-memory 16GiB is more than the memory limit .* leaves for it, 8GiB: "):
        host_memory_of("16GiB").budget_bytes(100 * GIB, 8 * GIB)
    assert host_memory_of("16GiB").budget_bytes(100 * GIB, 16 * GIB) == 16 * GIB
    assert host_memory_of("16GiB").budget_bytes(4 * GIB, None) == 4 * GIB


def test_sizes_are_shown_as_they_are_written() -> None:
    """What an error names can be typed."""
    assert [shown(count) for count in (0, 3 << 19, 3 * GIB // 2, 5 << 40)] == ["0KiB", "1.5MiB", "1.5GiB", "5TiB"]
