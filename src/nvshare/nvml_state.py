"""How NVML is, as logs and metrics say it, what to do about it, and when a program had better be started anew."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path

SILENCE_SECONDS = 30.0
"""A call that takes longer does not come back soon, or never."""
INIT_ERROR_SECONDS = 300.0
"""How long NVML may be missing at first: a driver is installed in that time, and nobody minds a restart after it."""

_PCI_DEVICES = Path("/sys/bus/pci/devices")
_NVIDIA = "0x10de"
_DISPLAY_CONTROLLER = "0x03"


class NvmlState(Enum):
    """NVML as a whole; single GPUs may be lost beside it."""

    UNKNOWN = "unknown"
    """It has not answered yet."""
    OK = "ok"
    NO_GPU = "no_gpu"
    """It shows none, or it is missing where no GPU is expected."""
    LIBRARY_NOT_FOUND = "library_not_found"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    VERSION_MISMATCH = "version_mismatch"
    ERROR = "error"
    SILENT = "silent"
    """A call does not return."""

    @property
    def is_broken(self) -> bool:
        """Whether it is not what it should be."""
        return self not in (NvmlState.UNKNOWN, NvmlState.OK, NvmlState.NO_GPU)


SILENCE = "the driver does not answer NVML"
LOST = "run nvidia-smi on the node and look for NVRM and Xid in its kernel log; reset the GPU, or reboot the node"

_ADVICE = {
    NvmlState.NO_GPU: "if this node has GPUs, it needs NVIDIA's driver, and this container NVIDIA's container runtime "
    "(runtimeClassName: nvidia)",
    NvmlState.LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not here: install NVIDIA's driver; a container gets its library "
    "from the NVIDIA container runtime (runtimeClassName: nvidia) when the container is made",
    NvmlState.DRIVER_NOT_LOADED: "the kernel has no NVIDIA driver, or this container has no /dev/nvidiactl: run "
    "nvidia-smi on the node, and load the driver there (modprobe nvidia)",
    NvmlState.VERSION_MISMATCH: "the library and the kernel's driver have different versions, as after an update: "
    "reload the driver or reboot the node; in Kubernetes delete this pod then: its container gets the library anew",
    NvmlState.ERROR: "run nvidia-smi on the node and look for NVRM in its kernel log",
    NvmlState.SILENT: "run nvidia-smi on the node; if that hangs too, only a reboot helps",
}


def advice(state: NvmlState) -> str:
    """What to do about it; empty where there is nothing to do."""
    return _ADVICE.get(state, "")


def lost(error: str) -> str:
    """Why a GPU is unhealthy for which NVML has only an error."""
    return f"lost: NVML: {error}"


def gpu_on_bus(devices: Path = _PCI_DEVICES) -> bool:
    """Whether the machine has a GPU of NVIDIA, driver or not; one that is given to a virtual machine does not count."""
    return any(map(_is_gpu, devices.glob("*")))


def _is_gpu(device: Path) -> bool:
    try:
        if (device / "vendor").read_text().strip() != _NVIDIA:
            return False
        if not (device / "class").read_text().startswith(_DISPLAY_CONTROLLER):
            return False
        return (device / "driver").resolve().name != "vfio-pci"
    except OSError:
        return False


class InitErrors:
    """Whether NVML is missing where there is a GPU, and for how long. Time is an argument.

    A container gets NVML when it is made. One that was made before the driver never sees it: its program ends, so
    that it is made anew.
    """

    def __init__(
        self, fatal: bool | None, seconds: float = INIT_ERROR_SECONDS, on_bus: Callable[[], bool] = gpu_on_bus
    ) -> None:
        """``fatal``: whether to end because of it; None: where ``on_bus`` says that there is a GPU."""
        self.seconds = seconds
        self._fatal = fatal
        self._on_bus = on_bus
        self._since: float | None = None

    def heard(self, state: NvmlState, now: float) -> NvmlState:
        """NVML was asked, with this outcome; the answer is what that means on this machine."""
        if state not in (NvmlState.LIBRARY_NOT_FOUND, NvmlState.DRIVER_NOT_LOADED):
            self._since = None
            return state
        on_bus = self._on_bus()
        if self._fatal or (self._fatal is None and on_bus):
            self._since = now if self._since is None else self._since
        return state if on_bus or self._fatal else NvmlState.NO_GPU

    @property
    def ends(self) -> bool:
        """Whether the program ends if it stays like this."""
        return self._since is not None

    def over(self, now: float) -> bool:
        """Whether it was like this for long enough."""
        return self._since is not None and now - self._since >= self.seconds
