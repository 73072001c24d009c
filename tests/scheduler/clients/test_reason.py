"""Why a client waits, in words: what is said, what is left out where there is no room, and what others may not know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvshare.protocol import whole_texts, wire
from nvshare.scheduler.clients.reason import InTheWay, for_gang, while_moving, while_recovering, why
from nvshare.scheduler.core.snapshot import GangWait, Line, SwapSnapshot
from nvshare.scheduler.pods.description import Description
from nvshare.scheduler.pods.identity import Identity, Source

LONGEST = whole_texts.longest(4)
"""For libraries to which a text comes in one frame."""
SECOND = Line(2, 3, 12.7, (), recovering=False)
NOBODY = Identity()
POD = Identity("space", "pod-1", "main", Source.KERNEL)
ASKER = Description(99, "python eval.py", NOBODY, 1000, 99, "")
HOLDER = Description(1234, "python train.py", NOBODY, 1000, 1234, "")


def test_the_same_user() -> None:
    """Since when, the place in the line, and who holds since when."""
    assert why(SECOND, ASKER, [InTheWay(HOLDER, 30.9)], LONGEST) == (
        "2nd of 3 in line, behind pid 1234 (python train.py), holding for 30 s"
    )


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/home/somebody/env/bin/python train.py", " (python train.py)"),
        ("python train.py --epochs 100 --lr 3e-4 --batch 64", " (python train.py --epochs 100 --lr 3e-4...)"),
        ("€" * 40, " (€€€€€€€€€€€€...)"),
        ("", ""),
    ],
)
def test_long_command(command: str, shown: str) -> None:
    """It is cut, between characters, so that the whole has room in the frame."""
    text = why(SECOND, ASKER, [InTheWay(replace(HOLDER, command=command), 30.9)], LONGEST)
    assert text == f"2nd of 3 in line, behind pid 1234{shown}, holding for 30 s"
    assert wire.decode(whole_texts.encode(wire.Reason(text), 4)) == wire.Reason(text)


@pytest.mark.parametrize(
    ("asker", "holder", "shown"),
    [
        (ASKER, replace(HOLDER, uid=1001), "another user's client"),
        (replace(ASKER, uid=0), HOLDER, "another user's client"),
        (ASKER, replace(HOLDER, identity=POD, namespaces="0::/kubepods/a"), "another pod's client"),
        (replace(ASKER, identity=POD, namespaces="0::/kubepods/a"), HOLDER, "another client"),
        # Containers that are no pods, or pods of which the kernel says nothing.
        (ASKER, replace(HOLDER, namespaces="0::/docker/a"), "another client"),
        (replace(ASKER, namespaces=None), HOLDER, "another client"),
        (replace(ASKER, namespaces=None), replace(HOLDER, namespaces=None), "another client"),
        (ASKER, replace(HOLDER, own_pid=0), "another client"),
    ],
)
def test_others_are_not_told_of(asker: Description, holder: Description, shown: str) -> None:
    """Another user, another pod, another container: neither pid nor command."""
    text = why(SECOND, asker, [InTheWay(holder, 30.9)], LONGEST)
    assert text == f"2nd of 3 in line, behind {shown}, holding for 30 s"


def test_within_a_container() -> None:
    """The pid is the one that the asker's container shows."""
    inside = {"identity": POD, "namespaces": "0::/kubepods/a"}
    text = why(
        SECOND, replace(ASKER, **inside, own_pid=8), [InTheWay(replace(HOLDER, **inside, own_pid=7), 3.0)], LONGEST
    )
    assert "behind pid 7 (python train.py), holding for 3 s" in text


def test_several_hold() -> None:
    """The one that has held longest is named, the others are counted."""
    holders = [InTheWay(replace(HOLDER, own_pid=pid), held) for pid, held in ((5, 3.0), (1234, 7500.0), (6, 4.0))]
    text = why(SECOND, ASKER, holders, LONGEST)
    assert text.startswith("2nd of 3 in line, behind pid 1234 (python")
    assert text.endswith(" and 2 more, holding for 2 h")


def test_who_is_stopped() -> None:
    """That one is named, with what makes it go on, for whoever may know of it."""
    in_the_way = [InTheWay(HOLDER, 90.0), InTheWay(replace(HOLDER, own_pid=6), 3.0, stopped=True)]
    text = why(SECOND, ASKER, in_the_way, LONGEST)
    assert text == "2nd of 3 in line, behind pid 6 (python train.py) and 1 more, stopped: kill -CONT 6"
    stranger = replace(ASKER, uid=1001)
    assert (
        why(SECOND, stranger, in_the_way[1:], LONGEST)
        == "2nd of 3 in line, behind another user's client, which is stopped"
    )


def test_who_keeps_memory_without_the_lock() -> None:
    """It holds nothing, but its memory is in the way."""
    text = why(SECOND, ASKER, [InTheWay(HOLDER, 90.0, holds=False)], LONGEST)
    assert text.endswith("pid 1234 (python train.py), which keeps its memory on the GPU")


def test_a_library_that_takes_whole_texts() -> None:
    """Of the command more is said, and not all of a very long one."""
    command = "python train.py --epochs 100 --lr 3e-4 --batch 64"
    text = why(SECOND, ASKER, [InTheWay(replace(HOLDER, command=command), 30.9)], whole_texts.longest(5))
    assert text == f"2nd of 3 in line, behind pid 1234 ({command}), holding for 30 s"
    text = why(SECOND, ASKER, [InTheWay(replace(HOLDER, command="x" * 5000), 30.9)], whole_texts.longest(5))
    assert f"({'x' * 77}...)" in text


def test_longest_of_all() -> None:
    """Whatever the numbers are, it has room."""
    line = Line(1000011, 1000012, 59 * 60.0, (), recovering=False)
    text = why(line, ASKER, [InTheWay(replace(HOLDER, own_pid=4194301, command="x" * 5000), 1e9)] * 4096, LONGEST)
    assert "1000011th of 1000012" in text
    assert len(text.encode()) <= LONGEST


def test_nobody_is_in_the_way() -> None:
    """For a moment."""
    assert why(SECOND, ASKER, [], LONGEST) == "2nd of 3 in line"


@pytest.mark.parametrize(
    ("asker", "awaited", "whom"),
    [
        (ASKER, [77], "pid 77"),
        (ASKER, [77, 78], "pid 77 and 1 more"),
        (ASKER, [0], "a holder"),
        (replace(ASKER, namespaces="0::/kubepods/a"), [77], "a holder"),
        (replace(ASKER, namespaces=None), [77], "a holder"),
    ],
)
def test_after_a_restart(asker: Description, awaited: list[int], whom: str) -> None:
    """The scheduler waits for those who held the lock; a pid of the host says nothing within a container."""
    text = while_recovering(replace(SECOND, recovering=True), asker, awaited)
    assert text == f"2nd of 3 in line; the scheduler waits for {whom} to come back"


def test_memory_that_is_on_its_way() -> None:
    """Nobody is in its way, but its memory is not all there."""
    gib = 1 << 30
    swap = SwapSnapshot(3 * gib, 9 * gib, 0, 12 * gib, 12 * gib, 12 * gib, 12 * gib, in_bytes=9 * gib)
    assert while_moving(SECOND, 12 * gib, swap) == (
        "2nd of 3 in line; its memory is being brought in: 3.0 GiB of 12.0 GiB"
    )
    assert while_moving(SECOND, 12 * gib, replace(swap, in_bytes=0)) == (
        "2nd of 3 in line; no room for its memory yet: 3.0 GiB of 12.0 GiB are on the GPU"
    )
    assert while_moving(replace(SECOND, too_large=True), 12 * gib, swap) == (
        "2nd of 3 in line; 12.0 GiB don't fit beside what can't leave the GPU: others have to end"
    )
    assert while_moving(SECOND, 3 * gib, swap := replace(swap, in_bytes=0)) == "2nd of 3 in line"


def test_a_gang_with_a_member_that_does_not_fit() -> None:
    """Which one that is, and where."""
    device = "GPU-89012345-6789-abcd-ef01-23456789abcd"
    text = for_gang(GangWait(4, device, 7, too_large=True), ASKER, replace(ASKER, pid=4194304, own_pid=4194304))
    assert text == "its gang of 4 waits for pid 4194304, whose memory doesn't fit GPU-89012345"


def test_a_gang_with_a_member_that_does_not_answer() -> None:
    """Which one that is."""
    assert for_gang(GangWait(4, "", 7, silent=True), ASKER, ASKER) == (
        f"its gang of 4 waits for pid {ASKER.own_pid}, which does not answer"
    )
