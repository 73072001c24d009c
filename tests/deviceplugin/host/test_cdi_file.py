"""The file of CDI devices: there, whole and right, or it is said why not."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.gpus.nvml_thread import Scanned
from nvshare.deviceplugin.host import cdi_file as cdi_file_module
from nvshare.deviceplugin.host.cdi_file import CdiFile
from nvshare.deviceplugin.host.problems import HostProblems
from tests.deviceplugin.monitor_bench import Bench, Clock

LIBRARY, CLIENT = Path("/var/lib/nvshare/x"), Path("/var/run/nvshare/client")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "cdi"
    made.mkdir()
    return made


def cdi_file(folder: Path, library: Path = LIBRARY) -> CdiFile:
    return CdiFile(folder, "nvshare.com/gpu", library, CLIENT)


def names(folder: Path) -> list[str]:
    (file,) = folder.iterdir()
    assert file.name == "nvshare.com-gpu.json"
    return [device["name"] for device in json.loads(file.read_text())["devices"]]


def test_written_once(folder: Path) -> None:
    """The first look writes it, readable for everybody; later ones leave it alone while it is what it should be."""
    file = cdi_file(folder)
    assert file.described is None
    assert file.look(["GPU-a"])
    assert names(folder) == ["GPU-a", "all"]
    assert file.described == {"GPU-a"}
    assert (folder / "nvshare.com-gpu.json").stat().st_mode & 0o777 == 0o644
    inode = (folder / "nvshare.com-gpu.json").stat().st_ino
    assert not file.look(["GPU-a"])
    assert not cdi_file(folder).look(["GPU-a"])
    assert (folder / "nvshare.com-gpu.json").stat().st_ino == inode


def test_more_gpus_and_another_library(folder: Path) -> None:
    """A GPU that is found later is added; another version's plugin names its own library."""
    file = cdi_file(folder)
    file.look(["GPU-a"])
    assert file.look(["GPU-a", "GPU-b"])
    assert names(folder) == ["GPU-a", "GPU-b", "all"]
    assert file.described == {"GPU-a", "GPU-b"}
    assert cdi_file(folder, Path("/var/lib/nvshare/y")).look(["GPU-a", "GPU-b"])
    assert "/var/lib/nvshare/y" in (folder / "nvshare.com-gpu.json").read_text()


def test_written_again(folder: Path) -> None:
    """What somebody removed or changed is put right."""
    file = cdi_file(folder)
    file.look(["GPU-a"])
    path = folder / "nvshare.com-gpu.json"
    path.unlink()
    assert file.look(["GPU-a"])
    path.write_text("{}")
    assert file.look(["GPU-a"])
    assert names(folder) == ["GPU-a", "all"]


def test_a_folder_that_is_not_there(folder: Path) -> None:
    """It is not made: where the host's is not mounted no runtime would find the file. Well again as soon as it is."""
    file = cdi_file(folder / "missing")
    for look in (file.look_at_folder, lambda: file.look(["GPU-a"])):
        look()
        assert file.problem == (
            f"CDI file {folder}/missing/nvshare.com-gpu.json can't be written: No such file or directory: "
            f"the host's {folder}/missing must be there, and be mounted into this container"
        )
    (folder / "missing").mkdir()
    file.look_at_folder()
    assert file.problem is None
    assert file.look(["GPU-a"])
    assert file.problem is None


def test_nothing_half_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the former file stays as it was, and nothing else is left."""
    cdi_file(folder).look(["GPU-a"])
    file = cdi_file(folder)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert not file.look(["GPU-a", "GPU-b"])
    assert "No space left on device" in str(file.problem)
    assert names(folder) == ["GPU-a", "all"]
    monkeypatch.undo()
    assert file.look(["GPU-a", "GPU-b"])
    assert file.problem is None


def test_one_writes_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said to be in the file is what the last one wrote, whoever looks at the same moment."""
    both = threading.Barrier(2)
    write = cdi_file_module.write_whole

    def meet(target: Path, content: bytes, mode: int) -> None:
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=0.5)
        write(target, content, mode)

    monkeypatch.setattr(cdi_file_module, "write_whole", meet)
    file = cdi_file(folder)
    threads = [threading.Thread(target=file.look, args=([uuid],)) for uuid in ("GPU-a", "GPU-b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert both.broken
    assert file.described == frozenset(names(folder)) - {"all"}


def test_looking_at_the_folder_writes_nothing(folder: Path) -> None:
    """An instance that waits leaves the file to the one that serves."""
    file = cdi_file(folder)
    file.look_at_folder()
    assert file.problem is None
    assert file.described is None
    assert list(folder.iterdir()) == []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    from nvshare.deviceplugin import monitor

    clock = Clock()
    monkeypatch.setattr(monitor, "time", clock)
    return clock


def test_no_pod_gets_what_no_runtime_knows(clock: Clock) -> None:
    """A GPU without a CDI device is not given out, nor is any while the file can't be written."""
    bench = Bench(clock)
    bench.monitor.handle(Scanned((Gpu("GPU-a", "0"), Gpu("GPU-b", "1"))))
    assert bench.problems == [None, None]
    bench.host = HostProblems(described=frozenset({"GPU-a"}))
    bench.monitor.check_host()
    assert bench.problems == [None, "container runtimes do not know its CDI device yet"]
    assert bench.monitor.problems() == []
    bench.host = HostProblems(described=frozenset({"GPU-a", "GPU-b"}), cdi="CDI file can't be written")
    bench.monitor.check_host()
    assert bench.problems == ["CDI file can't be written"] * 2
    assert bench.monitor.problems() == ["CDI file can't be written"]
    assert bench.metric("problem", kind="cdi") == 1
