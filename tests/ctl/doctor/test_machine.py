"""What doctor says of a machine: as it is here, and as others are."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nvshare import huge_pages, paths, simgpu
from nvshare.ctl.doctor.findings import Level
from nvshare.ctl.doctor.machine_checks import check
from nvshare.ctl.doctor.machine_facts import (
    Cuda,
    Gpu,
    Library,
    Machine,
    Nvml,
    Scheduler,
    Socket,
    SwapDir,
    User,
)
from nvshare.nvml_state import NvmlState
from nvshare.paths import RunDir
from nvshare.version import version
from tests.conftest import SOURCE_ROOT, Libraries
from tests.ctl.program import ctl
from tests.polling import poll_until

GIB = 1 << 30
GPU = Gpu(0, "GPU-1", "A GPU", 16 * GIB, 0, ())
DISK = SwapDir("/var/swap", 100 * GIB, 10 * GIB, 95 * GIB)
SOCKET = Socket("/run/nvshare/client/scheduler.sock", 0o666, 0o666, True)
WELL = Machine(
    nvml=Nvml(NvmlState.OK, "", "580.1", (GPU,)),
    cuda=Cuda("/usr/lib/libcuda.so.580.1", "", 13000, (True,)),
    library=Library("/opt/libnvshare.so", ""),
    scheduler=Scheduler(
        "/run/nvshare", True, "", "0.2.0", 77, ("GPU-1",), (), frozenset({12}), 32 * GIB, (SOCKET,), swap_dir=DISK
    ),
    original_listens="",
    own_version="0.2.0",
    cgroup_version=2,
    pods_known=True,
    hidden_pids=False,
    own_pid_namespace=False,
    memory_available_bytes=64 * GIB,
    huge_pages="advise",
    locked_limit_bytes=None,
    mps_pids=(),
    mps_variable=False,
    preload="",
    library_path="",
)


def gpu(**changed: Any) -> Nvml:
    """NVML with one GPU that is otherwise well."""
    return replace(WELL.nvml, gpus=(replace(GPU, **changed),))


def scheduler(**changed: Any) -> Scheduler:
    """One that is otherwise well."""
    return replace(WELL.scheduler, **changed)


def disk(**changed: Any) -> Scheduler:
    """One with another folder for files."""
    return scheduler(swap_dir=replace(DISK, **changed))


def test_all_is_well() -> None:
    """Nothing but what is ok is said of a machine where all is well, and nothing is to be done."""
    findings = check(WELL)
    assert {finding.level for finding in findings} == {Level.OK}
    assert not any(finding.advice for finding in findings)


@pytest.mark.parametrize(
    ("machine", "level", "subject", "what"),
    [
        (replace(WELL, nvml=Nvml(NvmlState.LIBRARY_NOT_FOUND, "no", "", ())), "problem", "driver", "NVML: no"),
        (replace(WELL, nvml=Nvml(NvmlState.NO_GPU, "", "580.1", ())), "problem", "driver", "shows no GPU"),
        (replace(WELL, nvml=gpu(error="GPU is lost")), "problem", "driver", "GPU is lost"),
        (replace(WELL, cuda=Cuda("", "no file", 0, ())), "problem", "libcuda", "not found: no file"),
        (replace(WELL, cuda=replace(WELL.cuda, error="cuInit answers 3")), "problem", "libcuda", "answers 3"),
        (replace(WELL, cuda=replace(WELL.cuda, virtual_memory=(True, False))), "note", "virtual memory", "device 1"),
        (replace(WELL, library=Library("", "has none")), "problem", "libnvshare", "has none"),
        (replace(WELL, scheduler=scheduler(answers=False, version="")), "note", "scheduler", "none runs"),
        (replace(WELL, scheduler=scheduler(error="did not answer")), "problem", "scheduler", "did not answer"),
        (replace(WELL, own_version="0.3.0"), "note", "scheduler", "and this is 0.3.0"),
        (replace(WELL, original_listens="/var/run/x.sock"), "problem", "old socket", "/var/run/x.sock"),
        (replace(WELL, scheduler=scheduler(policies_off=("GPU-1",))), "note", "policy", "policy is off"),
        (replace(WELL, scheduler=scheduler(devices=("GPU-2",))), "note", "GPUs", "knows GPU-2"),
        (
            replace(WELL, scheduler=scheduler(sockets=(replace(SOCKET, mode=0o600),))),
            "problem",
            "socket",
            "mode 600, not 666",
        ),
        (replace(WELL, scheduler=scheduler(sockets=(replace(SOCKET, mode=0),))), "problem", "socket", "is gone"),
        (
            replace(WELL, scheduler=scheduler(sockets=(replace(SOCKET, usable=False),))),
            "problem",
            "socket",
            "this one can't come there",
        ),
        (replace(WELL, nvml=gpu(users=(User(13, "other", GIB),))), "note", "others", "pid 13 (other) uses 1.0 GiB"),
        (replace(WELL, nvml=gpu(compute_mode=3)), "problem", "compute mode", "EXCLUSIVE_PROCESS"),
        (replace(WELL, nvml=gpu(compute_mode=2)), "problem", "compute mode", "PROHIBITED"),
        (replace(WELL, mps_pids=(5,)), "problem", "MPS", "pid 5"),
        (replace(WELL, mps_variable=True), "problem", "MPS", "CUDA_MPS_PIPE_DIRECTORY"),
        (replace(WELL, cgroup_version=0), "note", "cgroups", "none is mounted"),
        (replace(WELL, hidden_pids=True), "note", "pids", "hidepid"),
        (replace(WELL, own_pid_namespace=True), "note", "pids", "namespace"),
        (replace(WELL, memory_available_bytes=GIB), "note", "host memory", "1.0 GiB free"),
        (replace(WELL, huge_pages="never"), "note", "huge pages", "has none (shmem_enabled: never)"),
        (replace(WELL, huge_pages="deny"), "note", "huge pages", "has none (shmem_enabled: deny)"),
        (
            replace(WELL, scheduler=disk(free_bytes=None)),
            "note",
            "disk",
            "10.0 GiB of 100.0 GiB used in /var/swap, which",
        ),
        (replace(WELL, scheduler=disk(free_bytes=80 * GIB)), "note", "disk", "the disk has 80.0 GiB free"),
        (replace(WELL, scheduler=disk(in_memory=True)), "note", "disk", "in memory, which it is to spare"),
        (replace(WELL, scheduler=disk(remote=True)), "note", "disk", "another machine's disk"),
        (replace(WELL, preload="/a.so:/b/libnvshare.so"), "problem", "LD_PRELOAD", "another nvshare: /b/libnvshare.so"),
        (replace(WELL, preload="/opt/libnvshare.so"), "note", "LD_PRELOAD", "takes turns"),
        (replace(WELL, preload="/a.so"), "note", "LD_PRELOAD", "has /a.so"),
    ],
)
def test_findings(machine: Machine, level: str, subject: str, what: str) -> None:
    """One thing that is not as it should be is one finding, of its level."""
    (finding,) = [finding for finding in check(machine) if finding.level is not Level.OK]
    assert (finding.level, finding.subject) == (level, subject)
    assert what in finding.what


def test_clients_are_no_others() -> None:
    """A process that the scheduler knows is not told as somebody else's."""
    assert check(replace(WELL, nvml=gpu(users=(User(12, "ours", GIB),)))) == check(WELL)


def test_huge_pages_are_for_what_swaps() -> None:
    """Nothing is said of them where nothing swaps, and where the kernel does not say; else how they are had."""
    for machine in (replace(WELL, scheduler=scheduler(host_bytes=0)), replace(WELL, huge_pages="")):
        assert "huge pages" not in {finding.subject for finding in check(machine)}
    (finding,) = [finding for finding in check(replace(WELL, huge_pages="never")) if finding.advice]
    assert f"echo advise > {huge_pages.SETTING}, " in finding.advice
    assert finding.advice.endswith(f"for good, in /etc/tmpfiles.d/nvshare.conf: w {huge_pages.SETTING} - - - - advise")


CONTAINER = replace(WELL, scheduler=scheduler(only_for_clients=True), preload="/usr/lib/nvshare/libnvshare.so")


def test_a_container_has_the_library_of_the_node() -> None:
    """It is another one than that of an nvshare in the image; without it nothing there takes turns."""
    assert {finding.level for finding in check(CONTAINER)} == {Level.OK}
    for preload in ("", "/a.so"):
        (finding,) = [found for found in check(replace(CONTAINER, preload=preload)) if found.level is not Level.OK]
        assert (finding.level, finding.subject) == (Level.PROBLEM, "LD_PRELOAD")
        assert "/usr/lib/nvshare/libnvshare.so" in finding.advice


def test_pids_of_another_namespace_are_nobodys() -> None:
    """Who uses a GPU is not told by a pid that means another process here."""
    found = check(replace(WELL, own_pid_namespace=True, nvml=gpu(users=(User(1, "init", GIB),))))
    assert [finding.subject for finding in found if finding.level is not Level.OK] == ["pids"]


def document(run_dir: RunDir, code: int, *options: str, **more: str) -> dict[str, dict[str, str]]:
    """What doctor says of this machine, by subject; the last of a subject."""
    done = ctl(run_dir, "doctor", "-o", "json", *options, **more)
    assert (done.returncode, done.stderr) == (code, "")
    said = json.loads(done.stdout)
    assert said["problems"] == sum(finding["level"] == "problem" for finding in said["findings"])
    assert (said["problems"] > 0) == (code == 1)
    return {finding["subject"]: finding for finding in said["findings"]}


@pytest.mark.usefixtures("libraries")
def test_without_anything(run_dir: RunDir) -> None:
    """Without driver and scheduler it says so, with what to do, and ends with 1."""
    found = document(run_dir, 1)
    assert (found["driver"]["level"], found["libcuda"]["level"]) == ("problem", "problem")
    assert found["driver"]["advice"]
    assert (found["libnvshare"]["level"], found["scheduler"]["level"]) == ("ok", "note")
    assert "none runs at" in found["scheduler"]["what"]


def test_with_scheduler(run_dir: RunDir, environment: dict[str, str], start_scheduler: Callable[..., object]) -> None:
    """Beside a scheduler on simulated GPUs nothing is a problem; the sockets are as they should be."""
    start_scheduler()
    found = document(run_dir, 0, **environment)
    assert {found[subject]["level"] for subject in ("driver", "libcuda", "virtual memory", "socket")} == {"ok"}
    assert f"version {version()}, pid" in found["scheduler"]["what"]
    assert "by LD_LIBRARY_PATH" in found["libcuda"]["what"]
    assert ("huge pages" in found) == huge_pages.SETTING.exists()


def test_in_a_container(
    run_dir: RunDir, environment: dict[str, str], start_scheduler: Callable[..., object], tmp_path: Path
) -> None:
    """Only the clients' folder is mounted there: that the others are not there is no problem."""
    start_scheduler()
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "client").symlink_to(run_dir.client_socket.parent)
    done = ctl(run_dir, "doctor", "-o", "json", "--run-dir", str(mounted), **environment)
    findings = json.loads(done.stdout)["findings"]
    said = [finding for finding in findings if finding["subject"] in ("scheduler", "socket")]
    assert [finding["level"] for finding in said] == ["ok", "ok"]
    assert f"one answers at {mounted}" in said[0]["what"]
    asked = ctl(run_dir, "status", "--run-dir", str(mounted))
    assert asked.returncode == 4
    assert f"a scheduler answers at {mounted}/client/scheduler.sock, and only what programs need of it" in asked.stderr


def test_socket_for_nobody(
    run_dir: RunDir, environment: dict[str, str], start_scheduler: Callable[..., object]
) -> None:
    """A client socket with another mode is a problem that is named with its remedy."""
    start_scheduler()
    run_dir.client_socket.chmod(0o600)
    done = ctl(run_dir, "doctor", **environment | {"COLUMNS": "200"})
    assert done.returncode == 1
    assert re.search(rf"problem +socket +{run_dir.client_socket} has mode 600, not 666", done.stdout)
    assert f"chmod 666 {run_dir.client_socket}" in done.stdout


def test_a_name_that_is_cut_within_a_letter(run_dir: RunDir, tmp_path: Path) -> None:
    """The kernel keeps fifteen bytes of the name of a process, whatever letters they are."""
    program = tmp_path / f"{'a' * 14}é"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as process:
        name = Path(f"/proc/{process.pid}/comm")
        poll_until(lambda: name.read_bytes().startswith(b"aaaa"), "it has that name")
        done = ctl(run_dir, "doctor", "-o", "json")
        process.kill()
    assert json.loads(done.stdout)["findings"], done.stderr


def test_yaml(run_dir: RunDir, tmp_path: Path) -> None:
    """The same as YAML, in a file."""
    report = tmp_path / "report"
    done = ctl(run_dir, "doctor", "-o", "yaml", "--output-file", str(report))
    assert (done.returncode, done.stdout) == (1, "")
    assert report.read_text().startswith("schema_version: 1\n")
    assert "\nproblems: " in report.read_text()


def test_files_of_the_command_are_its_own(run_dir: RunDir, tmp_path: Path) -> None:
    """Its stdout has nothing of doctor's, and the exit code is its own; the report comes after what it said itself."""
    more = simgpu.environment(tmp_path / "gpus", "1GiB")
    done = ctl(run_dir, "doctor", "--", "sh", "-c", "echo out; echo err >&2; exit 42", **more)
    assert (done.returncode, done.stdout) == (42, "out\n")
    said, _, report = done.stderr.partition("err\n")
    assert "started a scheduler" in said
    assert report.startswith("shared safely: it used no GPU (exit code 42)")
    os.kill(int(run_dir.pid_file.read_text()), 15)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--", "no-such-command-anywhere"], 127, "no such command in PATH"),
        (["--", "/dev/null"], 126, "permission denied"),
        (["--output-file", "/no/such/folder/file", "--", "true"], 125, "can't be written to /no/such/folder/file"),
    ],
)
def test_what_can_not_be_run(run_dir: RunDir, arguments: list[str], code: int, said: str) -> None:
    """As with run: what was wrong, and an exit code that says which kind."""
    done = ctl(run_dir, "doctor", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


@pytest.mark.parametrize(("arguments", "code"), [([], 1), (["--", "true"], 1)], ids=["machine", "command"])
def test_a_report_that_finds_no_room(run_dir: RunDir, arguments: list[str], code: int) -> None:
    """One line that names the file."""
    done = ctl(run_dir, "doctor", "-o", "json", "--output-file", "/dev/full", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.splitlines()[-1] == (
        "nvshare-ctl: the report can't be written to /dev/full: No space left on device"
    )


def test_a_report_of_the_machine_that_has_no_place(run_dir: RunDir) -> None:
    """Without a command it is 1, as all that fails."""
    done = ctl(run_dir, "doctor", "--output-file", "/no/such/folder/file")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the report can't be written to /no/such/folder/file: No such file or directory" in done.stderr


def test_original_scheduler(monkeypatch: pytest.MonkeyPatch, run_dir: RunDir) -> None:
    """Whoever listens at the original's path and not at ours is the original."""
    from nvshare.ctl.doctor import machine_look

    monkeypatch.setattr(paths, "SYSTEM_RUN_DIR", run_dir.root)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as original:
        original.bind(str(run_dir.legacy_socket))
        original.listen()
        assert machine_look.look([run_dir], {}).original_listens == str(run_dir.legacy_socket)


def test_what_the_kernel_says_of_huge_pages(monkeypatch: pytest.MonkeyPatch, run_dir: RunDir, tmp_path: Path) -> None:
    """One of the words is chosen; a kernel without them has no such file."""
    from nvshare.ctl.doctor import machine_look

    setting = tmp_path / "shmem_enabled"
    monkeypatch.setattr(huge_pages, "SETTING", setting)
    assert machine_look.look([run_dir], {}).huge_pages == ""
    setting.write_text("always within_size [advise] never deny force\n")
    assert machine_look.look([run_dir], {}).huge_pages == "advise"


def test_a_pod_knows_of_kubelet(run_dir: RunDir) -> None:
    """Of whose folders it has only what is mounted: it is there by kubelet all the same."""
    from nvshare.ctl.doctor import machine_look

    machine = machine_look.look([run_dir], {"KUBERNETES_SERVICE_HOST": "192.0.2.129"})
    assert machine.pods_known
    (found,) = (each for each in check(replace(machine, cgroup_version=2)) if each.subject == "cgroups")
    assert found.what == "version 2, pods are told by them"


def test_a_driver_that_hangs(libraries: Libraries, tmp_path: Path) -> None:
    """It is said, and doctor ends: what waits for the driver is not waited for."""
    environment = simgpu.environment(tmp_path / "gpus", "1GiB")
    subprocess.run([sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"], env=environment, check=True)
    (tmp_path / "gpus" / "nvml").write_text("hang\n")
    look = (
        "from nvshare.ctl.doctor import machine_look\n"
        "machine_look._SECONDS = 0.1\n"
        "print(machine_look._nvml().state.value, flush=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", look],
        env={**environment, "PYTHONPATH": str(SOURCE_ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "silent\n", "")
