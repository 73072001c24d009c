"""Every path and environment variable name of nvshare, once.

The C side repeats the names of the variables, the library in ``config.c`` and ``terms.c`` of ``shim/csrc/process/`` and
the simulated GPU where it reads them; tests compare them with these.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RUN_DIR = "NVSHARE_RUN_DIR"
MEMORY = "NVSHARE_MEMORY"
ON_MISSING = "NVSHARE_ON_MISSING"
DEBUG = "NVSHARE_DEBUG"
SINGLE_OVERSUB = "NVSHARE_ENABLE_SINGLE_OVERSUB"
WEIGHT = "NVSHARE_WEIGHT"
PRIORITY = "NVSHARE_PRIORITY"
COMPUTE_LIMIT = "NVSHARE_COMPUTE_LIMIT"
MEMORY_LIMIT = "NVSHARE_MEMORY_LIMIT"
MEMORY_REQUEST = "NVSHARE_MEMORY_REQUEST"
WHEN_FULL = "NVSHARE_WHEN_FULL"
SLEEP = "NVSHARE_SLEEP"
CONTAINER = "NVSHARE_CONTAINER"
GANG = "NVSHARE_GANG"
REPORT = "NVSHARE_REPORT"
"""Internal: the folder into which processes put the reports that ``nvshare-ctl doctor`` reads."""
VIRTUAL_DEVICES = "NVSHARE_VIRTUAL_DEVICES"
SIMGPU_DIR = "NVSHARE_SIMGPU_DIR"
SIMGPU_DEVICES = "NVSHARE_SIMGPU_DEVICES"
SIMGPU_TRACE = "NVSHARE_SIMGPU_TRACE"
LD_PRELOAD = "LD_PRELOAD"
NOTIFY_SOCKET = "NOTIFY_SOCKET"
NVIDIA_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
KUBECONFIG = "KUBECONFIG"
KUBERNETES_SERVICE_HOST = "KUBERNETES_SERVICE_HOST"
KUBERNETES_SERVICE_PORT = "KUBERNETES_SERVICE_PORT"

SYSTEM_RUN_DIR = Path("/var/run/nvshare")
CONTAINER_LIBRARY_DIR = Path("/usr/lib/nvshare")
LIBRARY_NAME = "libnvshare.so"
KUBELET_DIR = Path("/var/lib/kubelet/device-plugins")
CDI_DIR = Path("/var/run/cdi")
VOLUME_MOUNTS_DIR = Path("/var/run/nvidia-container-devices")
"""Where NVIDIA's container runtime looks for the list of GPUs: each is a mount of /dev/null under its UUID."""
HOST_LOGS = Path("/var/log")
SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
POD_RESOURCES_SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")


@dataclass(frozen=True, slots=True)
class RunDir:
    """The files of one scheduler's run directory.

    ``client/`` is what containers get mounted; ``admin/`` and ``status/`` never leave the node.
    """

    root: Path

    @property
    def client_socket(self) -> Path:
        """Where clients connect, protocol 1 and 2."""
        return self.root / "client" / "scheduler.sock"

    @property
    def legacy_socket(self) -> Path:
        """The same service at the path of the original nvshare v0.1.1."""
        return self.root / "scheduler.sock"

    @property
    def admin_socket(self) -> Path:
        """The gRPC admin API, mode 0600 in a 0700 folder."""
        return self.root / "admin" / "admin.sock"

    @property
    def status_socket(self) -> Path:
        """The part of the admin API that only shows, for every user of the machine."""
        return self.root / "status" / "status.sock"

    @property
    def pid_file(self) -> Path:
        """The running scheduler's pid, for people and scripts; what is locked is the run directory itself."""
        return self.root / "scheduler.pid"

    @property
    def holder_record(self) -> Path:
        """Who holds what, for the scheduler after this one."""
        return self.root / "holders"

    @property
    def swapper_record(self) -> Path:
        """Whose memory swaps, for the scheduler after this one."""
        return self.root / "swappers"

    @property
    def choices(self) -> Path:
        """What the operator set while a scheduler ran, for the scheduler after it."""
        return self.root / "choices.json"

    @property
    def annotated(self) -> Path:
        """What the annotations of the node's pods ask for, as the node agent told it, for the scheduler after it."""
        return self.root / "annotated.json"

    @property
    def resource_claims(self) -> Path:
        """What ResourceClaims of the node may have, as the device plugin told it, for the scheduler after it."""
        return self.root / "resource-claims.json"

    @property
    def contexts(self) -> Path:
        """What contexts of processes that sleep take, for the scheduler after it."""
        return self.root / "contexts.json"

    @property
    def node_config(self) -> Path:
        """The value of the node's label that chooses the device plugin's settings; no file: it has no such label."""
        return self.root / "node" / "config"

    @property
    def log_file(self) -> Path:
        """What a scheduler says that ``nvshare-ctl run`` started in the background."""
        return self.root / "scheduler.log"

    @property
    def start_lock(self) -> Path:
        """Locked with flock(2) by the one that is starting a scheduler in the background."""
        return self.root / "start.lock"

    @property
    def programs_lock(self) -> Path:
        """Locked shared, with flock(2), by every program that ``nvshare-ctl run`` started, for as long as it lives.

        A scheduler that wants to end because it is idle must first lock it for itself alone, without waiting, and keep
        it locked until its sockets are gone: a program that has not used a device yet still counts on it.
        """
        return self.root / "programs.lock"


def run_dir(environment: Mapping[str, str], uid: int | None = None) -> RunDir:
    """A new scheduler's: NVSHARE_RUN_DIR, else ``/var/run/nvshare`` for root, for a user ``own_run_dirs``' last."""
    if explicit := environment.get(RUN_DIR):
        return RunDir(Path(explicit))
    uid = os.getuid() if uid is None else uid
    return RunDir(SYSTEM_RUN_DIR) if uid == 0 else own_run_dirs(environment, uid)[-1]


def own_run_dirs(environment: Mapping[str, str], uid: int) -> tuple[RunDir, ...]:
    """Where a scheduler of a user's own may be, the last where a new one is, as the shim computes it too.

    That is ``$XDG_RUNTIME_DIR/nvshare``, else the same in ``/run/user/UID`` where there is such a folder, else
    ``/tmp/nvshare-UID``. ssh, cron and ``su`` give one user different environments, so all are looked at.
    """
    session, temporary = Path(f"/run/user/{uid}"), RunDir(Path(f"/tmp/nvshare-{uid}"))
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        own = RunDir(Path(runtime) / "nvshare")
    else:
        own = RunDir(session / "nvshare") if session.is_dir() else temporary
    return (*(each for each in (RunDir(session / "nvshare"), temporary) if each != own), own)


def run_dirs(environment: Mapping[str, str], uid: int | None = None) -> tuple[RunDir, ...]:
    """Where to look for a scheduler, in this order, as the shim does too; the last one is ``run_dir``.

    The system's comes before the user's own, so that all users of a machine share its GPUs. NVSHARE_RUN_DIR leaves no
    choice.
    """
    uid = os.getuid() if uid is None else uid
    own = run_dir(environment, uid)
    system = RunDir(SYSTEM_RUN_DIR)
    return (own,) if environment.get(RUN_DIR) or own == system else (system, *own_run_dirs(environment, uid))
