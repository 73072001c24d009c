"""What ``nvshare-ctl top`` shows of a device: every fact that a person looks for, in the room that there is."""

from __future__ import annotations

import pytest

from nvshare.admin import admin_pb2
from nvshare.ctl.top.figures import Colors, shares, shares_between, who
from nvshare.ctl.top.memory_bar import bar
from nvshare.ctl.top.sections import Look, overview, section
from tests.ctl.admin_server import example, swapping

GIB = 1 << 30


def look(width: int = 160, sorting: str = "STATE") -> Look:
    """A terminal of this width."""
    return Look(width, Colors(), {}, sorting)


def text(device: admin_pb2.Device, height: int = 100, width: int = 160, sorting: str = "STATE") -> str:
    """The device's section without a history."""
    return "\n".join(line.plain for line in section(device, admin_pb2.Timeline(), look(width, sorting), height))


def crowded(count: int = 20) -> admin_pb2.Device:
    """A device with many clients."""
    clients = [admin_pb2.Client(id=number, pid=100 + number, state="idle", command="x") for number in range(count)]
    return admin_pb2.Device(uuid="GPU-1", index="0", policy="auto", quantum_seconds=30, clients=clients)


def test_memory_that_moves() -> None:
    """What comes and what leaves, with how much is left and how fast; what is in host memory; the reserve."""
    shown = text(swapping().devices[0])
    assert "13.0 GiB swapped; 81 out, 4.0 GiB left at 24.0 GiB/s; 82 in, 3.0 GiB left at 20.5 GiB/s" in shown
    assert "clients 11.0 GiB, ▒ pinned 1.0 GiB, ╌ reserve 512 MiB, ░ free 3.5 GiB" in shown


def test_nothing_moves() -> None:
    """Then what moved so far."""
    device = swapping().devices[0]
    for client in device.clients:
        client.swap.coming_bytes = client.swap.leaving_bytes = 0
    assert "swapped; so far 31.0 GiB out at 24.0 GiB/s, 30.0 GiB in at 20.5 GiB/s" in text(device)


def test_how_it_is_shared() -> None:
    """Policy, quantum and what is left of it, holder, line, mix, gang, terms, notices, holders that are waited for."""
    busy, quiet = example().devices
    busy.mix.ratio, busy.mix.turns = 0.92, True
    busy.clients[0].gang.name, busy.clients[0].gang.size = "gang 1", 2
    busy.clients[1].terms.weight, busy.clients[1].terms.priority = 2, "high"
    busy.clients[1].terms.compute_limit = 0.5
    shown = text(busy)
    for part in (
        "auto, 30 s, 12.2 s left; held by 72; in line: 4194301",
        "0.92 of turns, so turns",
        "gang 1 (2 clients)",
        "weight 2, priority high, compute 50 %",
        "72: drain: stepping",
        "72: a context that nvshare did not see",
        "vision/detector-5d4f8c7b9-x2x7k/main",
        "▚ others 512 MiB",
    ):
        assert part in shown
    assert "for holders of the scheduler before: 4194303" in text(quiet)


def test_a_gang_of_one() -> None:
    """Its others have ended, or have not come yet."""
    device = example().devices[0]
    device.clients[0].gang.name, device.clients[0].gang.size = "job", 1
    assert "job (1 client)" in text(device)


def test_who_sleeps() -> None:
    """How many of all, and for how long each of them."""
    device = crowded(4)
    assert "asleep" not in text(device)
    for client, seconds in zip(device.clients[:2], (90.0, 3725.0), strict=True):
        client.state, client.asleep_seconds = "asleep", seconds
    shown = text(device)
    assert "asleep    2 of 4: 100, 101" in shown
    assert "asleep 1m 30s" in shown
    assert "asleep 1h 02m" in shown


def test_data_in_files() -> None:
    """A column of its own, where there is any."""
    device = swapping().devices[0]
    assert "STORED" not in text(device)
    device.clients[0].swap.stored_bytes = 5 * GIB
    assert "STORED" in text(device)
    assert "7.0 GiB  5.0 GiB" in text(device)


def test_equal_data() -> None:
    """A column of its own, where there is any."""
    device = swapping().devices[0]
    assert "SHARED" not in text(device)
    device.clients[0].swap.shared_bytes = 5 * GIB
    assert "7.0 GiB  5.0 GiB" in text(device)
    assert "SHARED" in text(device)


@pytest.mark.parametrize("width", [80, 160])
def test_names(width: int) -> None:
    """The name that somebody gave has a column; who they are is left out of a narrow terminal where all are one's."""
    device = crowded(3)
    for client, member_of in zip(device.clients, ("train@0", "pid:101@0", "python-0a1b2c3d@0"), strict=True):
        client.member_of = member_of
    head, *rows = [line.split() for line in text(device, width=width).splitlines()[-4:]]
    assert head[:3] == (["PID", "NAME", "WHO"] if width == 160 else ["PID", "NAME", "STATE"])
    assert [row[2] for row in rows] == ["train", *["root" if width == 160 else "idle"] * 2]
    device.clients[1].identity.pod = "a-pod"
    assert text(device, width=width).count("a-pod") == 1
    device.clients[2].member_of = "pid:102@1"
    assert "WHO" in text(device, width=width)


def test_the_bar_adds_up() -> None:
    """As many signs as there are cells, in the proportions of the memory; none is free where too much is used."""
    device = swapping().devices[0]
    signs = bar(device, Colors(), 64).plain
    assert len(signs) == 64
    # Of 16 GiB 5 and 6 are the clients', 1 is pinned, a half the reserve.
    assert [signs.count(sign) for sign in "█▓▒╌░"] == [20, 24, 4, 2, 14]
    device.foreign_bytes = 100 * GIB
    assert "░" not in bar(device, Colors(), 64).plain
    assert bar(admin_pb2.Device(uuid="GPU-1"), Colors(), 64).plain == "░" * 64


@pytest.mark.parametrize("height", range(0, 30, 3))
def test_more_clients_than_room(height: int) -> None:
    """Never more lines than there is room for; those that are left out are counted."""
    shown = text(crowded(), height).splitlines()
    head = text(admin_pb2.Device(uuid="GPU-1", index="0", policy="auto", quantum_seconds=30)).splitlines()
    assert len(shown) <= max(height, len(head))
    if len(shown) > len(head):
        rows = [line for line in shown if line.endswith("  x")]
        assert len(rows) == 20 or f"and {20 - len(rows)} clients more" in shown[-1]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_lines_fit(width: int) -> None:
    """However narrow the terminal is, columns stay under their names."""
    for status in (example(), swapping()):
        lines = overview(status.devices, status.devices[0].uuid, look(width))
        assert lines[1].plain.startswith(">")
        for device in status.devices:
            names, *rows = text(device, width=width).splitlines()[-len(device.clients) - 1 :]
            assert all(len(row) >= names.index("STATE") for row in rows)


def test_orders() -> None:
    """By memory, by wait, by pid; else by state and the place in line."""
    device = example().devices[0]

    def pids(sorting: str) -> list[str]:
        rows = text(device, sorting=sorting).splitlines()[-2:]
        return [row.split()[1] for row in rows]

    assert pids("STATE") == ["72", "4194301"]
    assert pids("RESIDENT") == ["72", "4194301"]
    assert pids("WAIT") == ["4194301", "72"]
    device.clients[0].pid = 7
    assert pids("PID") == ["7", "72"]


def test_shares_of_time() -> None:
    """Of the history, or of what there is of it while the scheduler is young; earlier parts of turns don't count."""
    span = admin_pb2.TimelineSpan
    seen = admin_pb2.Timeline(
        seconds=60,
        clients=[
            admin_pb2.TimelineClient(
                id=1, spans=[span(what="holding", begin=40, end=50), span(what="leaving", begin=50, end=52)]
            ),
            admin_pb2.TimelineClient(id=2, spans=[span(what="waiting", begin=0, end=60)]),
        ],
    )
    assert shares(seen, 1000) == {1: 0.2, 2: 0}
    assert shares(seen, 20) == {1: 0.6, 2: 0}


def test_shares_between_two_answers() -> None:
    """Nothing is made up where a client or the scheduler was another one."""
    before, after = example(), example()
    after.uptime_seconds += 10
    after.devices[0].clients[1].held_seconds += 2.5
    after.devices[0].clients.add(id=9, held_seconds=5)
    assert shares_between(before, after) == {1: 0, 2: 0.25, 3: 0}
    after.scheduler_pid += 1
    assert shares_between(before, after) == {}
    assert shares_between(before, before) == {}


def test_who_it_is() -> None:
    """The pod, else the user by name, or by number where it has none."""
    assert who(example().devices[0].clients[1]) == "vision/detector-5d4f8c7b9-x2x7k/main"
    assert who(admin_pb2.Client(member_of="train@0")) == "root"
    assert who(admin_pb2.Client(member_of="pid:7@4123456789")) == "4123456789"
    assert who(admin_pb2.Client()) == ""
