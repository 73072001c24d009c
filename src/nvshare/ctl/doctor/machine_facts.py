"""What was found out about this machine, before anything is said of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from nvshare.ctl.doctor.program_facts import Awake, Program, Stopped
from nvshare.nvml_state import NvmlState


@dataclass(frozen=True, slots=True)
class User:
    """A process that has a context on a GPU, as NVML says it."""

    pid: int
    name: str
    """Empty: not known, as of a process in another pid namespace."""
    used_bytes: int | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, as NVML says it."""

    index: int
    uuid: str
    name: str
    total_bytes: int
    compute_mode: int
    """As NVML counts: 0 default, 2 prohibited, 3 exclusive process."""
    users: tuple[User, ...]
    error: str = ""
    """What NVML said instead; empty: it answers."""


@dataclass(frozen=True, slots=True)
class Nvml:
    """NVML as a whole."""

    state: NvmlState
    error: str
    driver_version: str
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True, slots=True)
class Cuda:
    """libcuda, as a process of this environment finds it."""

    path: str
    """Empty: it is not found."""
    error: str
    """What the loader or the driver said; empty: it works."""
    version: int
    """13000 is CUDA 13.0; 0: not known."""
    virtual_memory: tuple[bool, ...]
    """Of each device, whether its memory can be managed in the way that swapping needs."""


@dataclass(frozen=True, slots=True)
class Library:
    """libnvshare.so of this installation."""

    path: str
    error: str
    """Why it can't be preloaded; empty: it can."""


@dataclass(frozen=True, slots=True)
class Socket:
    """A socket of a scheduler."""

    path: str
    mode: int
    """Its permissions; 0: there is none."""
    wanted: int
    """The permissions that it should have."""
    usable: bool
    """By this user."""


@dataclass(frozen=True, slots=True)
class SwapDir:
    """Where a scheduler has files for the data of programs that sleep."""

    folder: str
    size_bytes: int
    """What all of them together may have."""
    used_bytes: int
    free_bytes: int | None
    """Of its file system; None: there is no such folder here."""
    in_memory: bool = False
    remote: bool = False


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The first place where a scheduler answers, or the last where none does."""

    run_dir: str
    answers: bool
    error: str
    version: str
    """Empty: it could not be asked."""
    pid: int
    devices: tuple[str, ...]
    """UUIDs that it knows."""
    policies_off: tuple[str, ...]
    """UUIDs of devices on which nobody takes turns."""
    client_pids: frozenset[int]
    """Those included that it waits for as holders of the scheduler before."""
    host_bytes: int
    sockets: tuple[Socket, ...]
    left: str = ""
    """What one that died left behind; empty: nothing, it ended in order or never was."""
    only_for_clients: bool = False
    """Of its run directory only the clients' folder is here, as in a container that uses a GPU."""
    swap_dir: SwapDir | None = None
    """None: the data of programs that sleep stays in host memory."""


@dataclass(frozen=True, slots=True)
class Machine:
    """All of it."""

    nvml: Nvml
    cuda: Cuda
    library: Library
    scheduler: Scheduler
    original_listens: str
    """The path at which a scheduler of the original nvshare 0.1.1 listens; empty: none does."""
    own_version: str
    cgroup_version: int
    """2, 1, or 0: none is mounted."""
    pods_known: bool
    """This machine runs kubelet."""
    hidden_pids: bool
    """/proc hides other users' processes from this one."""
    own_pid_namespace: bool
    memory_available_bytes: int
    huge_pages: str
    """What ``huge_pages.SETTING`` is set to: always, within_size, advise, never, deny or force; empty: not known."""
    locked_limit_bytes: int | None
    """How much memory a process may lock; None: as much as it likes."""
    mps_pids: tuple[int, ...]
    mps_variable: bool
    preload: str
    library_path: str
    programs: tuple[Program, ...] = ()
    """Those that have a context on a GPU, or the driver and nvshare's library in memory."""
    stopped: tuple[Stopped, ...] = ()
    awake: tuple[Awake, ...] = ()
    others: tuple[str, ...] = ()
    """Schedulers that have GPUs beside the one that answers, each as people call it."""
