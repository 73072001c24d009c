"""What the kernel and NVML show of a program's processes while they run. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from nvshare import paths
from nvshare.ctl.doctor.elf import Elf

_MAPPING = re.compile(r"^([0-9a-f]+)-[0-9a-f]+ (\S{4}) \S+ \S+ \d+ +(/.*)$", re.MULTILINE)
_DRIVER = re.compile(r"/libcuda\.so(\.[\d.]+)?( \(deleted\))?$")
_DEVICE = re.compile(r"^/dev/nvidia(ctl|\d+)$")


@dataclass(frozen=True, slots=True)
class Seen:
    """A process, as far as it was seen; what was true once stays true."""

    pid: int
    parent: int
    forked: bool = False
    """It executes what its parent did when it was made, with all that that one had in memory."""
    command: str = ""
    executable: str = ""
    elf: Elf | None = None
    """None: it could not be read."""
    privileged: bool = False
    """Its file gives it another user's or group's rights, so its environment's LD_PRELOAD does not count."""
    preloaded: bool = False
    """The library is in its memory."""
    told_to: bool | None = None
    """Its environment's LD_PRELOAD names the library; None: that could not be read."""
    drivers: int = 0
    """How many times libcuda is in its memory."""
    opened: bool = False
    """The driver has a device open."""
    context: bool = False
    """NVML says that it has a context."""
    hidden: bool = False
    """What it has in memory could not be read."""

    @property
    def uses_gpu(self) -> bool:
        """A driver is there, or a context was made without one that has the usual name."""
        return self.drivers > 0 or self.context


def with_maps(seen: Seen, maps: str, state_dir: str) -> Seen:
    """With what ``/proc/PID/maps`` says; ``state_dir``: of simulated GPUs, empty where there are none."""
    code = [path for _start, rights, path in _MAPPING.findall(maps) if "x" in rights]
    every = {path for _start, _rights, path in _MAPPING.findall(maps)}
    simulated = bool(state_dir) and f"{state_dir}/state" in every
    return replace(
        seen,
        preloaded=seen.preloaded or any(path.endswith("/" + paths.LIBRARY_NAME) for path in every),
        drivers=max(seen.drivers, sum(bool(_DRIVER.search(path)) for path in code)),
        opened=seen.opened or simulated,
    )


def with_environment(seen: Seen, environment: bytes) -> Seen:
    """With what ``/proc/PID/environ`` says."""
    preload = next((one for one in environment.split(b"\0") if one.startswith(b"LD_PRELOAD=")), b"")
    return replace(seen, told_to=paths.LIBRARY_NAME.encode() in preload)


def opens_device(target: str) -> bool:
    """Whether an open file is a GPU of NVIDIA's or its driver's."""
    return bool(_DEVICE.match(target))
