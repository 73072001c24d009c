"""Which GPUs this node offers: those of the environment or of the volume-mounts folder, else all of NVML. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from nvshare.deviceplugin.devices import Gpu, is_uuid
from nvshare.paths import NVIDIA_VISIBLE_DEVICES, VOLUME_MOUNTS_DIR


class MigStrategy(StrEnum):
    """What becomes of GPUs in MIG mode; the names are those of NVIDIA's device plugin."""

    NONE = "none"
    """They are left to others, with their MIG devices."""
    SINGLE = "single"
    """Each of their MIG devices is offered as a GPU is, under the same resource name."""
    MIXED = "mixed"
    """Each of their MIG devices is offered as a GPU is, under a resource name that says its profile."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which GPUs the plugin was told to offer."""

    visible: str | None = None
    """The plugin's own NVIDIA_VISIBLE_DEVICES."""
    mounted: tuple[str, ...] = ()
    """The names in the volume-mounts folder."""
    include: tuple[str, ...] = ()
    """UUIDs or indices; empty: all."""
    exclude: tuple[str, ...] = ()
    """UUIDs or indices."""
    configured: tuple[str, ...] = ()
    """UUIDs of GPUs that have a setting of their own."""
    mig: MigStrategy = MigStrategy.SINGLE


@dataclass(frozen=True, slots=True)
class Discovery:
    """The GPUs to offer, and what in the selection matched nothing."""

    gpus: tuple[Gpu, ...]
    warnings: tuple[str, ...] = ()


def discover(selection: Selection, nvml: Sequence[Gpu] | None) -> Discovery:
    """The GPUs to offer, in a stable order. ``nvml`` is all that NVML shows, None when there is no NVML."""
    warnings: list[str] = []
    gpus = _candidates(selection, nvml, warnings)
    known = gpus if nvml is None else list(nvml)
    if selection.mig is MigStrategy.NONE:
        left_out = dict.fromkeys(gpu.parent_uuid or gpu.uuid for gpu in gpus if gpu.is_mig)
        warnings += [f"{uuid} is in MIG mode, and left out (mig_strategy: none)" for uuid in left_out]
        gpus = [gpu for gpu in gpus if not gpu.is_mig]
    if selection.mig is MigStrategy.MIXED:
        unnamed = [gpu for gpu in gpus if gpu.is_mig and gpu.mig_profile is None]
        warnings += [f"{gpu.uuid}: NVML does not say its profile: left out (mig_strategy: mixed)" for gpu in unnamed]
        gpus = [gpu for gpu in gpus if gpu not in unnamed]
    if selection.include:
        wanted = _resolve(selection.include, known, "include", warnings)
        gpus = [gpu for gpu in gpus if gpu in wanted]
    excluded = _resolve(selection.exclude, known, "exclude", warnings)
    _resolve(selection.configured, known, "virtual_devices_per_gpu", warnings)
    return Discovery(tuple(gpu for gpu in gpus if gpu not in excluded), tuple(warnings))


def resource_of(gpu: Gpu, resource_name: str, mig: MigStrategy) -> str:
    """What pods ask for to get a share of it, where ``resource_name`` is for whole GPUs."""
    if mig is not MigStrategy.MIXED or gpu.mig_profile is None:
        return resource_name
    domain = resource_name.partition("/")[0]
    # A name of a resource may have no plus sign. NVIDIA's device plugin writes it so, too.
    return f"{domain}/mig-{gpu.mig_profile.replace('+', '.')}"


def _candidates(selection: Selection, nvml: Sequence[Gpu] | None, warnings: list[str]) -> list[Gpu]:
    visible = (selection.visible or "").strip()
    if visible == "none":
        return []
    if visible in ("", "void", str(VOLUME_MOUNTS_DIR)):
        # The runtime gave the list as mounts, or gave none: then what NVML shows in this container is the list.
        names, source = selection.mounted, str(VOLUME_MOUNTS_DIR)
    else:
        names, source = tuple(name.strip() for name in visible.split(",") if name.strip()), NVIDIA_VISIBLE_DEVICES
    if not names or names == ("all",):
        return list(nvml or ())
    if nvml is None:
        return _unseen(names, source, warnings)
    if _left_by_the_runtime(names, nvml):
        return list(nvml)
    chosen = _resolve(names, nvml, source, warnings)
    return [gpu for gpu in nvml if gpu in chosen]


def _left_by_the_runtime(names: Sequence[str], nvml: Sequence[Gpu]) -> bool:
    """Whether the names are indices on the node, by which a container runtime has chosen what NVML shows.

    NVML counts anew in such a container, so they say nothing about its GPUs. It shows more of them than are named only
    where no runtime chose.
    """
    shown = {gpu.parent_uuid or gpu.uuid for gpu in nvml}
    return all(name.isdecimal() for name in names) and len(shown) <= len(set(names))


def _unseen(names: Sequence[str], source: str, warnings: list[str]) -> list[Gpu]:
    """GPUs known by their UUID only, without NVML."""
    unusable = [name for name in names if not is_uuid(name)]
    if unusable:
        warnings.append(f"{source}: {', '.join(unusable)} can't be told without NVML: name GPUs by UUID")
    uuids = dict.fromkeys(name for name in names if is_uuid(name))
    return [Gpu(uuid, str(place)) for place, uuid in enumerate(uuids)]


def _resolve(names: Sequence[str], gpus: Sequence[Gpu], source: str, warnings: list[str]) -> list[Gpu]:
    """The GPUs that the names mean; the UUID of a GPU in MIG mode means all its MIG devices."""
    found: list[Gpu] = []
    for name in names:
        matches = [gpu for gpu in gpus if name in (gpu.uuid, gpu.index, gpu.parent_uuid)]
        if not matches:
            here = ", ".join(f"{gpu.index}={gpu.uuid}" for gpu in gpus) or "none"
            warnings.append(f"{source}: no GPU {name} on this node (here are: {here}): it is ignored")
        found += matches
    return found
