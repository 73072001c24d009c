"""The data of processes that sleep goes to files and comes back: the real scheduler, its sleepers and its files."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from nvshare.protocol import wire
from tests.polling import poll_until
from tests.scheduler.api.pages import figures
from tests.scheduler.sleeping.scene import DATA, MIB, Scene, Serve, Start
from tests.scheduler.sleeping.sleepy import OPTIONS, Sleepy
from tests.scheduler.wire_client import TIMEOUT_SECONDS

HOST = 352 * MIB
"""Two have room there with what they may have beside their data (64 MiB each), three have not."""
NOT_STORED = "the data of a process can't go to a file, and stays in memory"


class Files(Scene):
    """With a folder for files, and processes with more data than host memory takes."""

    def __init__(self, serve: Serve, start: Start, devices: dict[str, str], folder: Path) -> None:
        self.folder = folder
        super().__init__(serve, start, devices, HOST, (f"--swap-dir={folder}", "--swap-size=1GiB"))

    def three(self) -> None:
        """As many that sleep."""
        for _ in range(3):
            self.comes()
            self.sleeps()
        self.sees(self.stored, "some data is in a file")

    def stored(self) -> list[Sleepy]:
        """Those whose data is in files."""
        return [each for each in self.clients if each.file is not None]

    def used(self) -> int:
        """Bytes in files, as the status shows it."""
        return self.scheduler.status().swap_file_used_bytes

    def refusals(self) -> list[dict[str, object]]:
        """What the log says of data that stays in memory."""
        return [line for line in self.scheduler.log() if line["event"] == NOT_STORED]


@pytest.fixture
def scene(serve: Serve, start: Start, devices: dict[str, str], tmp_path: Path) -> Files:
    """With nobody yet."""
    (tmp_path / "files").mkdir()
    return Files(serve, start, devices, tmp_path / "files")


def files_of(pid: int, folder: Path) -> int:
    """How many files there a process has open."""
    count = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            count += str(folder) in str(link.readlink())
    return count


def test_more_data_than_host_memory(scene: Files) -> None:
    """Each has its own again when it wakes; what is where is shown, and added up."""
    scene.three()
    for client in scene.clients:
        scene.wakes(client)
        scene.sleeps()
    scene.sees(scene.stored, "some data is in a file")
    shown = [client for device in scene.scheduler.status().devices for client in device.clients]
    in_files = {client.client.client_id for client in scene.stored()}
    assert {client.id for client in shown if client.swap.stored_bytes} == in_files
    seen = figures(scene.scheduler)
    assert seen["nvshare_swap_file_bytes"] == 1 << 30
    assert seen["nvshare_swap_file_used_bytes"] == scene.used() == sum(c.memory.arena_bytes for c in scene.stored())
    assert seen["nvshare_swap_file_written_bytes_total"] - seen["nvshare_swap_file_read_bytes_total"] == scene.used()
    assert seen["nvshare_swap_file_read_bytes_total"] >= 3 * DATA
    assert seen["nvshare_swap_file_write_seconds_total"] > 0 < seen["nvshare_swap_file_read_seconds_total"]


def test_its_file(scene: Files) -> None:
    """It has no name, only its owner may read it, nobody but the client has it, and it ends with the client."""
    scene.three()
    for client in scene.stored():
        assert client.file is not None
        status = os.fstat(client.file)
        assert (stat.S_IMODE(status.st_mode), status.st_nlink, list(scene.folder.iterdir())) == (0o600, 0, [])
    pid = scene.scheduler.process.pid
    poll_until(lambda: not files_of(pid, scene.folder), "the scheduler has closed them", TIMEOUT_SECONDS)
    for client in scene.stored():
        scene.leaves(client)
    poll_until(lambda: scene.used() == 0, "nothing is used", TIMEOUT_SECONDS)


@pytest.mark.parametrize("options", [(), ("--burst=1",)], ids=["with files", "without"])
def test_the_scheduler_dies(scene: Files, options: tuple[str, ...]) -> None:
    """Who has its data in a file says so to the next one, and has it again when it wakes."""
    scene.three()
    in_files = scene.used()
    scene.again(*options)
    scene.sleeps()
    assert scene.used() == in_files == sum(client.memory.arena_bytes for client in scene.stored())
    assert scene.scheduler.status().host_memory_bytes == HOST
    if options:
        # All of their data has no room there.
        scene.leaves(scene.clients[-1])
    for client in scene.clients:
        scene.wakes(client)
        scene.sleeps()
    assert not [line for line in scene.scheduler.log() if line["level"] == "error"]


def test_the_folder_is_gone(scene: Files) -> None:
    """The data stays where it is, which is said once."""
    scene.folder.rmdir()
    for _ in range(2):
        scene.comes()
        scene.sleeps()
    scene.sees(scene.refusals, "it is said")
    reason = f"no file can be made in {scene.folder}: No such file or directory"
    for client in scene.clients:
        scene.wakes(client)
    assert [line["reason"] for line in scene.refusals()] == [reason]
    assert not scene.stored()


def test_the_disk_is_full(scene: Files) -> None:
    """The library says so, and has all of its data in memory as before."""
    for _ in range(2):
        scene.comes().refuses_file = "No space left on device"
        scene.sleeps()
    scene.sees(scene.refusals, "it is said")
    assert scene.refusals()[0]["reason"] == "No space left on device"
    assert scene.used() == 0
    for client in scene.clients:
        scene.wakes(client)


def test_its_data_is_lost(scene: Files) -> None:
    """It is told so when it wakes, and the operator is."""
    scene.three()
    client = scene.stored()[0]
    client.loses_file = True
    scene.wakes(client)
    assert client.door.is_lost
    [line] = scene.scheduler.logged("the data of a process is lost: its calls fail from now on")
    assert (line["level"], line["pid"]) == ("error", client.process.pid)
    assert figures(scene.scheduler)["nvshare_lost_processes_total"] == 1


def test_without_a_folder(serve: Serve, start: Start, devices: dict[str, str]) -> None:
    """Nothing of it is there: who sleeps keeps its host memory."""
    scheduler = serve(*OPTIONS, environment=devices)
    Sleepy(start(), scheduler).come().falls_asleep()
    status = scheduler.status()
    assert (status.swap_dir, status.swap_file_bytes) == ("", 0)


@pytest.mark.parametrize("frame", [wire.Stored(), wire.NotStored("why"), wire.Loaded()])
def test_nobody_asked(scene: Files, frame: wire.Frame) -> None:
    """Whoever answers that has its connection ended, and whoever says it before all else."""
    early = scene.start().connect(scene.scheduler)
    early.send(frame)
    early.raw.wait_closed()
    client = Sleepy(scene.start(), scene.scheduler).come()
    for _ in range(2):
        client.client.send(frame)
    client.client.raw.wait_closed()
