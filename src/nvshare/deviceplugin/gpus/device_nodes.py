"""Which device nodes a container needs to use a GPU, of those in this container's own ``/dev``.

kubelet's static CPU manager writes a container's list of allowed devices anew, without those that NVIDIA's runtime has
added. Then the container can open only nodes that the plugin's answer names. NVIDIA's plugin has the same option.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nvshare.deviceplugin.devices import Gpu

_DEV = Path("/dev")
_CONTROL = "nvidiactl"
_OTHERS = ("nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Some appear when they are needed first, and some drivers have not all."""
_MIG_MINORS = Path("/proc/driver/nvidia-caps/mig-minors")
"""Lines like ``gpu0/gi1/ci0/access 12``: the numbers of the nodes that open a MIG device's instances."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of one GPU, or what is wrong with them."""

    paths: tuple[Path, ...] = ()
    problem: str | None = None


def find_nodes(gpu: Gpu, dev: Path = _DEV, mig_minors: Path = _MIG_MINORS) -> Nodes:
    """The nodes of a GPU, named as in ``/dev``; ``dev`` is where this process sees them."""
    if gpu.minor is None:
        return Nodes(problem="compat_with_cpu_manager: NVML does not say which device node the GPU has")
    own = [_CONTROL, f"nvidia{gpu.minor}"]
    if gpu.parent_uuid is not None:
        instance = f"gpu{gpu.minor}/gi{gpu.gpu_instance}"
        numbers = [_capability(f"{instance}/{access}", mig_minors) for access in ("access", _compute(gpu))]
        if None in numbers:
            return Nodes(problem=f"compat_with_cpu_manager: {mig_minors} has no line for {instance}")
        own += [f"nvidia-caps/nvidia-cap{number}" for number in numbers]
    missing = next((name for name in own if not (dev / name).exists()), None)
    if missing is not None:
        return Nodes(problem=f"compat_with_cpu_manager: {dev / missing} is not in this container: run it privileged")
    return Nodes(tuple(_DEV / name for name in (*own, *(name for name in _OTHERS if (dev / name).exists()))))


def no_nodes(_gpu: Gpu) -> Nodes:
    """For nodes where the container runtime alone sees to them."""
    return Nodes()


def _compute(gpu: Gpu) -> str:
    return f"ci{gpu.compute_instance}/access"


def _capability(access: str, mig_minors: Path) -> int | None:
    try:
        found = re.search(rf"^{access} (\d+)$", mig_minors.read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else int(found[1])
