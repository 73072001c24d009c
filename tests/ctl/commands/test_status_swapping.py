"""``nvshare-ctl status`` where memory swaps: what is where, what moves, and who waits for it."""

from __future__ import annotations

import json

import pytest

from nvshare.ctl.showing import memory, status_document
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers, swapping
from tests.ctl.program import COMMAND, ctl, environment
from tests.ctl.terminal import in_terminal
from tests.polling import poll_until

GIB = 1 << 30


@pytest.fixture(autouse=True)
def swapped(answers: Answers) -> Answers:
    """The scheduler shows a hand-over."""
    answers.status = swapping()
    return answers


def test_what_is_where_in_json(run_dir: RunDir) -> None:
    """Scripts rely on these names and units."""
    shown = json.loads(ctl(run_dir, "status", "-o", "json").stdout)
    assert (shown["host_memory_bytes"], shown["host_memory_used_bytes"]) == (64 * GIB, 23 * GIB)
    files = shown["swap_dir"], shown["swap_file_bytes"], shown["swap_file_used_bytes"]
    assert files == ("/var/swap", 100 * GIB, 11 * GIB)
    [device] = shown["devices"]
    assert (device["reserve_bytes"], device["free_bytes"]) == (GIB // 2, 4 * GIB)
    assert device["swapping"] == {
        "in_bytes": 30 * GIB,
        "out_bytes": 31 * GIB,
        "in_seconds": 1.5,
        "out_seconds": 1.25,
        "in_bytes_per_second": 20.5 * GIB,
        "out_bytes_per_second": 24.0 * GIB,
        "stalls": 4,
        "stall_seconds": 0.75,
        "prefetched": 3,
        "refused_growths": 1,
        "spared_bytes": 15 * GIB,
    }
    assert device["clients"][0]["swap"] == {
        "resident_bytes": 4 * GIB,
        "swapped_bytes": 7 * GIB,
        "fixed_bytes": GIB,
        "allotted_bytes": 0,
        "admitted_bytes": 11 * GIB,
        "host_bytes": 11 * GIB,
        "usable_host_bytes": 11 * GIB,
        "coming_bytes": 0,
        "leaving_bytes": 4 * GIB,
        "wanted_bytes": 0,
        "still_seconds": 0.0,
        "stored_bytes": 0,
        "shared_bytes": 0,
    }


def test_document_and_back() -> None:
    """``kubectl nvshare status`` shows what the nodes' documents say."""
    document = status_document.from_status(swapping())
    assert status_document.to_status(document) == swapping()
    document["devices"][0]["swapping"]["news"] = document["devices"][0]["clients"][0]["swap"]["news"] = 1
    assert status_document.to_status(document) == swapping()


@pytest.mark.parametrize("columns", [80, 120])
def test_table(run_dir: RunDir, columns: int) -> None:
    """What is on the device adds up; what is in host memory, what moves and how fast, and the wait for it are said."""
    done = ctl(run_dir, "status", COLUMNS=str(columns))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert all(len(line) <= columns for line in lines)
    words = " ".join(done.stdout.split())
    assert "clients 12.0 + others 0.0 + free 4.0 = 16.0 GiB" in words
    assert "swap 13.0 GiB swapped, reserve 512 MiB; in all 31.0 GiB out and 15.0 GiB unchanged, 30.0 GiB in" in words
    assert "host memory for what is swapped: 23.0 GiB of 64.0 GiB" in words
    assert "disk for what sleeps: 11.0 GiB of 100.0 GiB, in /var/swap" in words
    [head] = [line.split() for line in lines if line.split()[:1] == ["PID"]]
    assert head[:5] == ["PID", "STATE", "FOOTPRINT", "RESIDENT", "SWAPPED"]
    figures = {line.split()[0]: line.split()[1:] for line in lines if line.strip().startswith(("81 ", "82 "))}
    assert figures["81"][:7] == ["idle", "12.0", "GiB", "5.0", "GiB", "7.0", "GiB"]
    assert figures["82"][:7] == ["waiting", "12.0", "GiB", "6.0", "GiB", "6.0", "GiB"]


@pytest.mark.parametrize(("columns", "kept"), [(40, ["FOOTPRINT", "COMMAND"]), (60, ["FOOTPRINT", "WAITS", "COMMAND"])])
def test_narrow_table(run_dir: RunDir, columns: int, kept: list[str]) -> None:
    """Every line fits: columns that matter less are left out, and no figure is cut."""
    lines = ctl(run_dir, "status", COLUMNS=str(columns)).stdout.splitlines()
    assert all(len(line) <= columns for line in lines)
    [head] = [line.split() for line in lines if line.split()[:1] == ["PID"]]
    assert head == ["PID", "STATE", *kept]
    [row] = [line.split() for line in lines if line.split()[:1] == ["81"]]
    assert row[1:4] == ["idle", "12.0", "GiB"]


def test_what_moves(run_dir: RunDir) -> None:
    """A bar of what is on the device, how much is left to move and how fast, and who waits for its data."""
    lines = [" ".join(line.split()) for line in ctl(run_dir, "status", COLUMNS="160").stdout.splitlines()]
    assert "moving 81 swap-out ━━╌╌╌╌╌╌ 4.0 GiB left, 24.0 GiB/s" in lines
    assert "moving 82 swap-in ━━━━╌╌╌╌ 3.0 GiB left, 20.5 GiB/s" in lines
    assert any(" 30.0 s, 1 of 1, for its data " in line for line in lines)
    [head] = [line.split() for line in lines if line.startswith("PID")]
    assert head[2:] == ["FOOTPRINT", "RESIDENT", "SWAPPED", "PINNED", "HELD", "WAITED", "ALLOTTED", "WAITS", "COMMAND"]
    assert any(line.endswith("1.0 GiB python train.py") for line in lines)


def test_who_does_not_move(swapped: Answers, run_dir: RunDir) -> None:
    """It is said instead of a rate at which nothing moves, and also what the other's call waits for meanwhile."""
    stopped, other = swapped.status.devices[0].clients
    stopped.swap.still_seconds, other.swap.wanted_bytes = 13.0, GIB
    words = " ".join(ctl(run_dir, "status", COLUMNS="160").stdout.split())
    assert "swap-out ━━╌╌╌╌╌╌ 4.0 GiB left, nothing for 13.0 s" in words
    assert "waits 82 for 1.0 GiB of memory" in words


def test_what_does_not_come_in_yet_is_not_waited_for(swapped: Answers, run_dir: RunDir) -> None:
    """Nobody holds, but another one's data comes in first: there is no room for this one's."""
    swapped.status.devices[0].clients[1].swap.coming_bytes = 0
    words = " ".join(ctl(run_dir, "status", COLUMNS="160").stdout.split())
    assert "30.0 s, 1 of 1, for room on the GPU" in words


def test_what_does_not_fit_beside_what_stays_waits_for_others_ends(swapped: Answers, run_dir: RunDir) -> None:
    """It is passed over, and no turn of others will help it."""
    waiter = swapped.status.devices[0].clients[1]
    waiter.too_large, waiter.footprint_bytes = True, 8 * GIB
    words = " ".join(ctl(run_dir, "status", COLUMNS="160").stdout.split())
    assert "1 of 1, for others to end" in words
    assert "waits 82 8.0 GiB don't fit beside what can't leave the GPU" in words


def test_behind_a_holder_it_waits_for_that(swapped: Answers, run_dir: RunDir) -> None:
    """As long as somebody holds, the wait is for the holder, wherever the waiter's data is."""
    holder, waiter = swapped.status.devices[0].clients
    holder.state = "leaving"
    waiter.behind.append(holder.id)
    words = " ".join(ctl(run_dir, "status", COLUMNS="160").stdout.split())
    assert "1 of 1, for 81" in words
    assert "its data" not in words


def test_the_bar_moves_in_a_terminal(swapped: Answers, run_dir: RunDir) -> None:
    """``--watch`` draws the bar anew with each status."""
    with in_terminal([*COMMAND, "status", "--watch"], environment(run_dir, TERM="xterm-256color")) as terminal:
        poll_until(lambda: "3.0 GiB left" in terminal.output(), "the transfer is shown")
        assert "1.5 GiB left" not in terminal.output()
        swap = swapped.status.devices[0].clients[1].swap
        swap.resident_bytes, swap.coming_bytes = 7 * GIB + GIB // 2, GIB + GIB // 2
        swapped.changed.set()
        poll_until(lambda: "1.5 GiB left" in terminal.output(), "its progress is shown")
        assert terminal.output().count("━" * 5) == 1


def test_nothing_moves_and_nothing_is_heard(run_dir: RunDir) -> None:
    """``--watch`` says so by its own clock: while nothing changes the scheduler sends nothing."""
    with in_terminal([*COMMAND, "status", "--watch"], environment(run_dir, TERM="xterm-256color")) as terminal:
        poll_until(lambda: "GiB/s" in terminal.output(), "the transfer is shown")
        poll_until(lambda: "nothing" in terminal.output(), "that it is none is shown")


def test_memory_that_does_not_swap_counts_whole() -> None:
    """Beside clients whose memory swaps, all that the others allocated counts as on the device."""
    device = swapping().devices[0]
    other = device.clients.add(footprint_bytes=8 * GIB, backend="managed")
    assert memory.on_device(other) == 8 * GIB
    assert memory.as_sum(memory.of(device)) == "clients 20.0 + others 0.0 = 16.0 + 4.0 GiB oversubscribed"
