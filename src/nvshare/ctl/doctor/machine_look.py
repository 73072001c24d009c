"""Finds out about this machine. Nothing here uses a GPU, and nothing needs one, or a driver, or a scheduler."""

from __future__ import annotations

import json
import os
import queue
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml  # type: ignore[import-untyped]

from nvshare import huge_pages, paths, shim
from nvshare.admin import admin_pb2
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
from nvshare.ctl.doctor.proc import in_first_pid_namespace
from nvshare.ctl.doctor.program_look import awake, left_behind, programs, stopped
from nvshare.ctl.errors import CommandError
from nvshare.ctl.starting.other_schedulers import others
from nvshare.mounts import is_in_memory, is_remote
from nvshare.nvml import running, state_of
from nvshare.nvml_state import NvmlState
from nvshare.paths import RunDir
from nvshare.scheduler_process import SchedulerStartError, accepts, answers, only_for_clients
from nvshare.unix_sockets import distrust, listening_pid
from nvshare.version import version

_SECONDS = 30.0
"""A driver that takes longer to begin does not answer."""
_MPS = ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
_ASK_CUDA = """
import ctypes, json
answer = {"path": "", "error": "", "version": 0, "virtual_memory": []}
try:
    cuda = ctypes.CDLL("libcuda.so.1")
    with open("/proc/self/maps") as maps:
        answer["path"] = next((l.split()[-1] for l in maps if "/libcuda.so" in l), "")
    value = ctypes.c_int()
    result = cuda.cuInit(0)
    if result:
        answer["error"] = "cuInit answers %d" % result
    elif not cuda.cuDriverGetVersion(ctypes.byref(value)):
        answer["version"] = value.value
        cuda.cuDeviceGetCount(ctypes.byref(value))
        for number in range(value.value):
            has = ctypes.c_int()
            cuda.cuDeviceGetAttribute(ctypes.byref(has), 102, number)
            answer["virtual_memory"].append(bool(has.value))
except OSError as error:
    answer["error"] = str(error)
print(json.dumps(answer))
"""


def look(run_dirs: Sequence[RunDir], environment: Mapping[str, str]) -> Machine:
    """Everything. Takes as long as a driver takes to begin."""
    nvml = _nvml()
    scheduler, status = _scheduler(run_dirs)
    own_pids = paths.SIMGPU_DIR in environment or in_first_pid_namespace()
    users = [user.pid for gpu in nvml.gpus for user in gpu.users]
    return Machine(
        nvml=nvml,
        cuda=_cuda(environment),
        library=_library(environment),
        scheduler=scheduler,
        original_listens=_original(),
        own_version=version(),
        cgroup_version=_cgroup_version(),
        # A pod sees of kubelet only what is mounted into it, and is itself there by kubelet.
        pods_known=paths.KUBELET_DIR.is_dir() or paths.KUBERNETES_SERVICE_HOST in environment,
        hidden_pids=_hides_pids(),
        own_pid_namespace=not own_pids,
        memory_available_bytes=_memory_available(),
        huge_pages=huge_pages.chosen(),
        locked_limit_bytes=_locked_limit(),
        mps_pids=_processes_named(_MPS),
        mps_variable="CUDA_MPS_PIPE_DIRECTORY" in environment,
        preload=environment.get(paths.LD_PRELOAD, ""),
        library_path=environment.get("LD_LIBRARY_PATH", ""),
        programs=programs(users if own_pids else (), environment.get(paths.SIMGPU_DIR, "")),
        stopped=stopped(status) if _has_our_pids(scheduler) else (),
        awake=awake(status),
        others=_others(scheduler) if nvml.state is NvmlState.OK else (),
    )


def _nvml() -> Nvml:
    answer: queue.SimpleQueue[Nvml] = queue.SimpleQueue()
    # Python waits at its end for the threads of executors, and this one may never come back.
    threading.Thread(target=lambda: answer.put(_ask_nvml()), daemon=True).start()
    try:
        return answer.get(timeout=_SECONDS)
    except queue.Empty:
        return Nvml(NvmlState.SILENT, "does not answer", "", ())


def _ask_nvml() -> Nvml:
    try:
        pynvml.nvmlInit()
        gpus = tuple(_gpu(number) for number in range(pynvml.nvmlDeviceGetCount()))
        return Nvml(NvmlState.OK if gpus else NvmlState.NO_GPU, "", str(pynvml.nvmlSystemGetDriverVersion()), gpus)
    except pynvml.NVMLError as error:
        return Nvml(state_of(error), str(error), "", ())


def _gpu(number: int) -> Gpu:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(number)
        return Gpu(
            number,
            str(pynvml.nvmlDeviceGetUUID(handle)),
            str(pynvml.nvmlDeviceGetName(handle)),
            int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
            _compute_mode(handle),
            tuple(User(one.pid, _name_of(one.pid), one.usedGpuMemory) for one in running(handle)),
        )
    except pynvml.NVMLError as error:
        return Gpu(number, "", "", 0, 0, (), str(error))


def _compute_mode(handle: Any) -> int:
    try:
        return int(pynvml.nvmlDeviceGetComputeMode(handle))
    except pynvml.NVMLError:
        return 0


def _name_of(pid: int) -> str:
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "comm").read_text(errors="replace").strip()
    return ""


def _python(code: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A short program in a process of its own, since drivers stay in a process, and some never come back."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )


def _cuda(environment: Mapping[str, str]) -> Cuda:
    bare = {name: value for name, value in environment.items() if name != paths.LD_PRELOAD}
    try:
        done = _python(_ASK_CUDA, bare)
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return Cuda("libcuda.so.1", "does not answer", 0, ())
    except ValueError:
        return Cuda("libcuda.so.1", "a process that loads it ends at once", 0, ())
    return Cuda(answer["path"], answer["error"], answer["version"], tuple(answer["virtual_memory"]))


def _library(environment: Mapping[str, str]) -> Library:
    try:
        path = str(shim.library_path())
    except FileNotFoundError as error:
        return Library("", str(error))
    try:
        done = _python("", {**environment, paths.LD_PRELOAD: path})
    except subprocess.TimeoutExpired:
        return Library(path, f"{path}: a process with it does not begin")
    wrong = [line for line in done.stderr.splitlines() if paths.LIBRARY_NAME in line]
    return Library(path, wrong[0] if wrong else "")


def _scheduler(run_dirs: Sequence[RunDir]) -> tuple[Scheduler, admin_pb2.Status]:
    """The one that answers, else one that died, with what it says."""
    died = next(filter(left_behind, run_dirs), run_dirs[-1])
    run_dir = next(filter(answers, run_dirs), died)
    nobody = Scheduler(str(run_dir.root), False, "", "", 0, (), (), frozenset(), 0, ())
    nothing = admin_pb2.Status()
    if not answers(run_dir):
        return replace(nobody, error=_unusable(run_dir), left=left_behind(run_dir)), nothing
    if only_for_clients(run_dir):
        only = (_socket(run_dir.client_socket, 0o666),)
        return replace(nobody, answers=True, sockets=only, only_for_clients=True), nothing
    from nvshare.ctl.asking.admin_client import RPC_TIMEOUT, admin

    sockets = (
        _socket(run_dir.client_socket, 0o666),
        _socket(run_dir.status_socket, 0o666),
        _socket(run_dir.admin_socket, 0o600),
    )
    try:
        with admin([run_dir], only_to_read=True) as stub:
            status = stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=RPC_TIMEOUT)
    except CommandError as error:
        return Scheduler(str(run_dir.root), True, str(error), "", 0, (), (), frozenset(), 0, sockets), nothing
    scheduler = Scheduler(
        str(run_dir.root),
        True,
        "",
        status.version,
        status.scheduler_pid,
        tuple(device.uuid for device in status.devices),
        tuple(device.uuid for device in status.devices if device.policy == "off"),
        frozenset(
            pid
            for device in status.devices
            for pid in (*(client.pid for client in device.clients), *(holder.pid for holder in device.awaited))
        ),
        status.host_memory_bytes,
        sockets,
        swap_dir=_swap_dir(status) if status.swap_dir else None,
    )
    return scheduler, status


def _swap_dir(status: admin_pb2.Status) -> SwapDir:
    folder = Path(status.swap_dir)
    free_bytes = None
    with suppress(OSError):
        room = os.statvfs(folder)
        free_bytes = room.f_bavail * room.f_frsize
    return SwapDir(
        status.swap_dir,
        status.swap_file_bytes,
        status.swap_file_used_bytes,
        free_bytes,
        is_in_memory(folder),
        is_remote(folder),
    )


def _unusable(run_dir: RunDir) -> str:
    """Why this user can't or shouldn't come to a scheduler's socket, and what to do; empty: there is none."""
    if reason := distrust(run_dir.root):
        return f"{reason}; choose another --run-dir"
    try:
        accepts(run_dir.client_socket)
    except SchedulerStartError as error:
        return str(error)
    return ""


def _has_our_pids(scheduler: Scheduler) -> bool:
    """Whether the pids that the scheduler says are those of this process's pid namespace."""
    with suppress(OSError):
        return bool(scheduler.pid) and listening_pid(RunDir(Path(scheduler.run_dir)).client_socket) == scheduler.pid
    return False


def _others(scheduler: Scheduler) -> tuple[str, ...]:
    """Those that claim GPUs; where the one that answers can't be asked for its pid it may be among them."""
    answering = RunDir(Path(scheduler.run_dir)).client_socket
    own = scheduler.pid
    with suppress(OSError):
        own = own or listening_pid(answering) or 0
    return tuple(map(str, others(but=own)))


def _socket(path: Path, wanted: int) -> Socket:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except PermissionError:
        # Its folder is not for this user, and then neither is the socket.
        return Socket(str(path), wanted, wanted, False)
    except OSError:
        return Socket(str(path), 0, wanted, False)
    return Socket(str(path), mode, wanted, os.access(path, os.W_OK))


def _original() -> str:
    """Where the original listens: at one path, and ours does too, beside its own."""
    run_dir = RunDir(paths.SYSTEM_RUN_DIR)
    with suppress(OSError):
        if listening_pid(run_dir.legacy_socket) is not None and not answers(run_dir):
            return str(run_dir.legacy_socket)
    return ""


def _cgroup_version() -> int:
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return 2
    return 1 if Path("/sys/fs/cgroup/memory").is_dir() else 0


def _hides_pids() -> bool:
    with suppress(OSError):
        for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines():
            _device, place, kind, options, *_rest = line.split()
            if (place, kind) == ("/proc", "proc"):
                hides = any(option in options for option in ("hidepid=1", "hidepid=2", "hidepid=invisible"))
                return hides and os.geteuid() != 0
    return False


def _memory_available() -> int:
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def _locked_limit() -> int | None:
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _processes_named(names: Sequence[str]) -> tuple[int, ...]:
    """The kernel keeps the first fifteen characters of a name."""
    short = {name[:15] for name in names}
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "comm").read_text(errors="replace").strip() in short:
                line = (entry / "cmdline").read_bytes().split(b"\0", 1)[0].decode(errors="replace")
                if line.rpartition("/")[2] in names:
                    found.append(int(entry.name))
    return tuple(found)
