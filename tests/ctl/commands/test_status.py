"""``nvshare-ctl status``: what people and scripts get to see."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable

import grpc
import pytest
import yaml

from nvshare.admin import admin_pb2
from nvshare.ctl.showing import memory
from nvshare.paths import RunDir
from tests.ctl.admin_server import Answers, example, serving
from tests.ctl.program import COMMAND, ctl, environment

GIB = 1 << 30
MIB = 1 << 20

DOCUMENT = {
    "schema_version": 1,
    "version": "0.2.0",
    "scheduler_pid": 977,
    "uptime_seconds": 3600.0,
    "host_memory_bytes": None,
    "host_memory_used_bytes": 0,
    "swap_dir": None,
    "swap_file_bytes": None,
    "swap_file_used_bytes": 0,
    "shared_blocks_bytes": 0,
    "packs_bytes": 0,
    "devices": [
        {
            "index": "0",
            "uuid": "GPU-6ec4f6c2-ee1b-4b8a-a0e5-0d3e6d1c2b7a",
            "name": "NVIDIA H200",
            "total_bytes": 150754820096,
            "foreign_bytes": 536870912,
            "free_bytes": 150754820096 - 536870912 - 106300440576 - 536870912 - 123456789012 - 734003200,
            "reserve_bytes": 0,
            "swapping": None,
            "mix": None,
            "claimed": None,
            "policy": "auto",
            "quantum_seconds": 30.0,
            "quantum_left_seconds": 12.25,
            "recovering": False,
            "awaited": [],
            "clients": [
                {
                    "id": 1,
                    "pid": 4194301,
                    "command": "python3 /home/somebody/projects/speech/train.py --epochs 100 --batch-size 64 --lr 3e-4",
                    "state": "waiting",
                    "footprint_bytes": 106300440576,
                    "pinned_bytes": 536870912,
                    "pinned_measured": False,
                    "swap": None,
                    "name": None,
                    "member_of": None,
                    "claim": None,
                    "terms": None,
                    "memory_kept_bytes": 0,
                    "held_seconds": 3723.5,
                    "waited_seconds": 1234.5,
                    "grants": 17,
                    "backend": "managed",
                    "protocol_version": 2,
                    "waiting_seconds": 62.25,
                    "position": 1,
                    "behind": [2],
                    "too_large": False,
                    "drain": None,
                    "notices": [],
                    "memory_wait": None,
                    "asleep_seconds": None,
                    "sleeps": 0,
                    "awake_reason": None,
                    "gang": None,
                    "namespace": None,
                    "pod": None,
                    "container": None,
                    "identity_source": None,
                },
                {
                    "id": 2,
                    "pid": 72,
                    "command": "python serve.py",
                    "state": "holding",
                    "footprint_bytes": 123456789012,
                    "pinned_bytes": 734003200,
                    "pinned_measured": True,
                    "swap": None,
                    "name": None,
                    "member_of": None,
                    "claim": None,
                    "terms": None,
                    "memory_kept_bytes": 0,
                    "held_seconds": 17.75,
                    "waited_seconds": 0.5,
                    "grants": 1,
                    "backend": "native",
                    "protocol_version": 2,
                    "waiting_seconds": None,
                    "position": None,
                    "behind": [],
                    "too_large": False,
                    "drain": "stepping",
                    "notices": ["a context that nvshare did not see"],
                    "memory_wait": None,
                    "asleep_seconds": None,
                    "sleeps": 0,
                    "awake_reason": None,
                    "gang": None,
                    "namespace": "vision",
                    "pod": "detector-5d4f8c7b9-x2x7k",
                    "container": "main",
                    "identity_source": "kernel",
                },
            ],
            "allocations_without_client": [
                {
                    "namespace": "vision",
                    "pod": "own-preload",
                    "container": "c",
                    "identity_source": "kubelet",
                    "virtual_device_ids": ["GPU-6ec4f6c2-ee1b-4b8a-a0e5-0d3e6d1c2b7a__3"],
                    "claim": None,
                    "shares": 0,
                }
            ],
            "allocations_by_others": [
                {
                    "namespace": "vision",
                    "pod": "whole",
                    "container": "c",
                    "identity_source": "kubelet",
                    "virtual_device_ids": ["GPU-6ec4f6c2-ee1b-4b8a-a0e5-0d3e6d1c2b7a"],
                    "resource": "nvidia.com/gpu",
                }
            ],
        },
        {
            "index": None,
            "uuid": "GPU-00000000-0000-0000-0000-000000000001",
            "name": "NVIDIA H200",
            "total_bytes": 150754820096,
            "foreign_bytes": None,
            "free_bytes": None,
            "reserve_bytes": 0,
            "swapping": None,
            "mix": None,
            "claimed": None,
            "policy": "exclusive",
            "quantum_seconds": 2.5,
            "quantum_left_seconds": None,
            "recovering": True,
            "awaited": [{"pid": 4194303, "command": "python3"}],
            "clients": [
                {
                    "id": 3,
                    "pid": None,
                    "command": None,
                    "state": "leaving",
                    "footprint_bytes": None,
                    "pinned_bytes": 671088640,
                    "pinned_measured": False,
                    "swap": None,
                    "name": None,
                    "member_of": None,
                    "claim": None,
                    "terms": None,
                    "memory_kept_bytes": 0,
                    "held_seconds": 0.0,
                    "waited_seconds": 0.0,
                    "grants": 0,
                    "backend": None,
                    "protocol_version": 1,
                    "waiting_seconds": None,
                    "position": None,
                    "behind": [],
                    "too_large": False,
                    "drain": None,
                    "notices": [],
                    "memory_wait": None,
                    "asleep_seconds": None,
                    "sleeps": 0,
                    "awake_reason": None,
                    "gang": None,
                    "namespace": None,
                    "pod": None,
                    "container": None,
                    "identity_source": None,
                }
            ],
            "allocations_without_client": [],
            "allocations_by_others": [],
        },
    ],
}


def test_json(run_dir: RunDir, answers: Answers) -> None:
    """The document has this shape, names and units; scripts rely on it."""
    done = ctl(run_dir, "status", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == DOCUMENT


def test_yaml(run_dir: RunDir, answers: Answers) -> None:
    """YAML is the same document, in the same order."""
    done = ctl(run_dir, "status", "-o", "yaml")
    assert yaml.safe_load(done.stdout) == DOCUMENT
    assert done.stdout.startswith("schema_version: 1\nversion: 0.2.0\n")


@pytest.mark.parametrize("columns", ["80", "120"])
def test_table_keeps_numbers(run_dir: RunDir, answers: Answers, columns: str) -> None:
    """In the narrowest usual terminal every state, UUID and size is there in full; only commands and names are cut."""
    done = ctl(run_dir, "status", COLUMNS=columns)
    assert done.returncode == 0
    for text in (
        "GPU-6ec4f6c2-ee1b-4b8a-a0e5-0d3e6d1c2b7a",
        "NVIDIA H200",
        "clients 215.2 + others 0.5 = 140.4 + 75.3 GiB oversubscribed",
        "clients 0.6+? + others ? of 140.4 GiB",
        "~512 MiB",
        " 700 MiB",
        "notice  72  drain: stepping",
        "notice  72  a context that nvshare did not see",
        "1 leaving",
        "policy auto, quantum 30 s (12.2 s left), 1 holding, 1 waiting",
        "4194301",
        "99.0 GiB",
        "115.0 GiB",
        "recovering: waits for pid 4194303 (python3)",
        "allocated, no client: vision/own-preload/c, 1 virtual device",
        "given by nvidia.com/gpu, too: vision/whole/c",
        "nvshare-scheduler 0.2.0, pid 977, up 1h 00m",
        *(("1h 02m", "17.8 s", "python3 …/train.py", "-x2x") if columns == "120" else ()),
    ):
        assert text in done.stdout
    assert "vision/detector" in done.stdout
    assert all(len(line) <= int(columns) for line in done.stdout.splitlines())


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 200])
def test_a_client_is_one_line(run_dir: RunDir, answers: Answers, columns: int) -> None:
    """Whatever it waits for, and whatever it is called: of a wait as much is said as there is room for."""
    waiting = answers.status.devices[0].clients[0]
    waiting.member_of, waiting.command = "train@1000", "python train.py " + "--flag " * 40
    busy = [answers.status.devices[0].clients.add(id=10 + each, pid=5000 + each, state="holding") for each in range(30)]
    waiting.behind.extend(client.id for client in busy)
    lines = ctl(run_dir, "status", COLUMNS=str(columns)).stdout.splitlines()
    assert all(len(line) <= columns for line in lines)
    start = next(place for place, line in enumerate(lines) if line.split()[:1] == ["PID"])
    rows = lines[start + 1 : start + 33]
    assert [row.split()[0] for row in rows] == ["72", *(str(client.pid) for client in busy), "4194301"]
    assert "for 31 others" in rows[-1]
    assert "train " in rows[-1]


@pytest.mark.parametrize(
    ("columns", "figures", "waits"), [(140, 4, "1m 02s, 1 of 1, for 72"), (80, 3, "1m 02s for 72")]
)
def test_words_on_a_wait(run_dir: RunDir, answers: Answers, columns: int, figures: int, waits: str) -> None:
    """A wide terminal has room for the place in the line, too."""
    del answers.status.devices[0].clients[1].notices[:]
    answers.status.devices[0].clients[1].ClearField("identity")
    lines = ctl(run_dir, "status", COLUMNS=str(columns)).stdout.splitlines()
    [head] = [line.split() for line in lines if line.split()[:1] == ["PID"] and "WAITS" in line]
    all_figures = ["FOOTPRINT", "PINNED", "HELD", "WAITED"]
    assert head == ["PID", "STATE", *all_figures[:figures], "WAITS", "COMMAND"]
    assert any(f" {waits}  python" in line for line in lines)


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (80, ["NAME", "STATE", "FOOTPRINT", "PINNED", "WAITS"]),
        (60, ["NAME", "STATE", "WAITS"]),
        (44, ["STATE", "WAITS"]),
        (30, ["STATE"]),
    ],
)
def test_narrow_terminal(run_dir: RunDir, answers: Answers, columns: int, shown: list[str]) -> None:
    """PID, STATE and the beginning of COMMAND are there at every width; what matters less goes before."""
    done = ctl(run_dir, "status", COLUMNS=str(columns))
    heads = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["PID"]]
    assert heads[0] == ["PID", *shown, "COMMAND"]
    assert any("4194301" in line and "waiting" in line and "pyt" in line for line in done.stdout.splitlines())
    assert all(len(line) <= columns for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("total", "foreign", "clients", "shown"),
    [
        (16 * GIB, GIB // 2, [(12 * GIB, 640 * MIB)], "clients 12.6 + others 0.5 + free 2.9 = 16.0 GiB"),
        # Each number is rounded, and still they add up.
        (16 * GIB, 33 * MIB, [(34 * MIB, 0), (0, 34 * MIB)], "clients 0.1 + others 0.0 + free 15.9 = 16.0 GiB"),
        (4 * GIB, 0, [(GIB, 300 * MIB)], "clients 1324 + others 0 + free 2772 = 4096 MiB"),
        (16 * GIB, GIB, [(20 * GIB, 0)], "clients 20.0 + others 1.0 = 16.0 + 5.0 GiB oversubscribed"),
        (16 * GIB, None, [(4 * GIB, 0)], "clients 4.0 + others ? of 16.0 GiB"),
        (16 * GIB, 0, [(None, GIB)], "clients 1.0+? + others 0.0 of 16.0 GiB"),
        (0, 0, [(12 * GIB, 0)], "clients 12.0 + others 0.0 GiB, of an unknown total"),
    ],
)
def test_memory_adds_up(total: int, foreign: int | None, clients: list[tuple[int | None, int]], shown: str) -> None:
    """Clients, other processes and what is free are the device's memory; what is not known is no 0."""
    messages = [admin_pb2.Client(footprint_bytes=footprint, pinned_bytes=pinned) for footprint, pinned in clients]
    device = admin_pb2.Device(total_bytes=total, foreign_bytes=foreign, clients=messages)
    assert memory.as_sum(memory.of(device)) == shown


def test_holders_first(run_dir: RunDir, answers: Answers) -> None:
    """Those who hold the device stand above those who wait."""
    lines = ctl(run_dir, "status").stdout.splitlines()
    rows = [line.split() for line in lines if line.strip().startswith(("72 ", "4194301 "))]
    assert [("holding" in row, "waiting" in row) for row in rows] == [(True, False), (False, True)]


def test_no_device_yet(run_dir: RunDir, answers: Answers) -> None:
    """A scheduler that nobody has used says so instead of showing nothing."""
    answers.status = admin_pb2.Status(scheduler_pid=5)
    assert "no client has used one" in ctl(run_dir, "status").stdout


@pytest.mark.parametrize("arguments", [["status"], ["status", "--watch"], ["set", "quantum", "3"]])
def test_no_scheduler(run_dir: RunDir, arguments: list[str]) -> None:
    """Without a scheduler: one line with the socket and the remedy, exit code 3."""
    done = ctl(run_dir, *arguments)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"nvshare-ctl: no scheduler runs (nobody answers at {run_dir.admin_socket})")
    assert "nvshare-ctl run" in done.stderr
    assert done.stderr.count("\n") == 1


def test_stale_socket(run_dir: RunDir) -> None:
    """The socket file of a scheduler that died is no scheduler."""
    with serving(run_dir, Answers(example())):
        held = run_dir.admin_socket.with_name("held")
        os.link(run_dir.admin_socket, held)
    held.rename(run_dir.admin_socket)
    assert stat.S_ISSOCK(run_dir.admin_socket.stat().st_mode)
    assert ctl(run_dir, "status").returncode == 3


@pytest.mark.parametrize(
    ("arguments", "socket", "said"),
    [
        (["status"], "status/status.sock", "no permission to use "),
        (["status", "-o", "json"], "status/status.sock", "no permission to use "),
        (["timeline"], "status/status.sock", "no permission to use "),
        (["set", "quantum", "3"], "admin/admin.sock", "no permission to command the scheduler at "),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_not_permitted(
    run_dir: RunDir, answers: Answers, tool: Callable[[str], str], arguments: list[str], socket: str, said: str
) -> None:
    """Another user's scheduler: says which socket it needs, exit code 4."""
    # Root passes every mode unless it gives that right up.
    rights = [tool("setpriv"), "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    folders = run_dir.admin_socket.parent, run_dir.status_socket.parent
    folders[1].mkdir()
    for folder in folders:
        folder.chmod(0)
    try:
        command = [*rights, *COMMAND, *arguments]
        done = subprocess.run(command, env=environment(run_dir), capture_output=True, text=True, check=False)
    finally:
        for folder in folders:
            folder.chmod(0o700)
    assert done.returncode == 4
    assert done.stderr.startswith(f"nvshare-ctl: {said}{run_dir.root / socket}")
    assert done.stderr.count("\n") == 1


def test_refused(run_dir: RunDir, answers: Answers) -> None:
    """An error of the scheduler itself is one line with its words."""
    answers.refusal = grpc.StatusCode.INTERNAL, "the moon is in the wrong place"
    done = ctl(run_dir, "status")
    assert done.returncode == 1
    assert "INTERNAL: the moon is in the wrong place" in done.stderr
    assert done.stderr.count("\n") == 1


def test_path_too_long(run_dir: RunDir) -> None:
    """A run directory whose socket path no kernel takes is named."""
    done = ctl(run_dir, "status", "--run-dir", "/tmp/" + "x" * 120)
    assert done.returncode == 1
    assert "choose another --run-dir" in done.stderr
