"""What a container gets with its virtual devices: answered from the ids alone, the same answer every time. Pure.

kubelet asks once and keeps the answer for the pod's life: each path in it stays valid until the last such pod ends.
Folders are mounted, never files: the inode of a socket dies with the process that made it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from nvshare import cdi
from nvshare.deviceplugin.answers.requests import Rules, known_devices
from nvshare.deviceplugin.devices import Snapshot
from nvshare.paths import (
    CONTAINER_LIBRARY_DIR,
    LD_PRELOAD,
    LIBRARY_NAME,
    NVIDIA_VISIBLE_DEVICES,
    RUN_DIR,
    SYSTEM_RUN_DIR,
    VOLUME_MOUNTS_DIR,
    RunDir,
)

_CDI_PLUGIN = "nvshare-device-plugin"


class DeviceListStrategy(StrEnum):
    """How the container runtime learns which GPUs the container gets; the names are those of NVIDIA's device plugin.

    By CDI it learns of nvshare's own devices, too. They bring what the answer has anyway, for runtimes that know no
    CDI. But the answer's variables give way to the pod's own, and its paths stay those of the version that gave it.
    """

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI_ANNOTATIONS = "cdi-annotations"
    CDI_CRI = "cdi-cri"


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the host in the container."""

    host_path: Path
    container_path: Path
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node of the host in the container."""

    host_path: Path
    container_path: Path


@dataclass(frozen=True, slots=True)
class Injection:
    """What every container gets, whatever its devices are."""

    library_dir: Path
    """On the host: the folder of this version's library."""
    client_dir: Path
    """On the host: the folder with the scheduler's client socket."""
    strategies: frozenset[DeviceListStrategy] = frozenset({DeviceListStrategy.ENVVAR})
    cdi_kind: str = "nvidia.com/gpu"
    cdi_own_kind: str = cdi.KIND
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    dev_root: Path = Path("/")
    """On the host: the folder whose ``dev`` has the device nodes."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """The answer for one container."""

    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    annotations: Mapping[str, str]
    cdi_devices: tuple[str, ...]
    nodes: tuple[DeviceNode, ...]


def allocate(ids: Sequence[str], snapshot: Snapshot, rules: Rules, injection: Injection) -> Allocation:
    """What the container with these virtual devices gets; RequestError for unknown ids and for forbidden numbers."""
    rules.check_size(len(ids))
    devices = known_devices(ids, snapshot)
    uuids = snapshot.in_order(device.uuid for device in devices)
    rules.check_distinct(len(ids), len(uuids), f"these lie on {len(uuids)} of this node's {len(snapshot.offers)} GPUs")
    return Allocation(
        environment=environment(uuids, injection),
        mounts=mounts(uuids, injection),
        annotations=_annotations(uuids, ids, injection),
        cdi_devices=_cdi_names(uuids, injection) if DeviceListStrategy.CDI_CRI in injection.strategies else (),
        nodes=device_nodes((path for uuid in uuids for path in snapshot.nodes(uuid)), injection),
    )


def environment(uuids: Sequence[str], injection: Injection) -> dict[str, str]:
    """The variables of a container with these GPUs."""
    variables = dict(injection.environment)
    variables[LD_PRELOAD] = str(CONTAINER_LIBRARY_DIR / LIBRARY_NAME)
    variables[RUN_DIR] = str(SYSTEM_RUN_DIR)
    # NVIDIA's plugin lets the folder win over the list when both are asked for.
    if DeviceListStrategy.VOLUME_MOUNTS in injection.strategies:
        variables[NVIDIA_VISIBLE_DEVICES] = str(VOLUME_MOUNTS_DIR)
    elif DeviceListStrategy.ENVVAR in injection.strategies:
        variables[NVIDIA_VISIBLE_DEVICES] = ",".join(uuids)
    return variables


def mounts(uuids: Sequence[str], injection: Injection) -> tuple[Mount, ...]:
    """The folders and files of the host in a container with these GPUs."""
    made = [
        Mount(injection.library_dir, CONTAINER_LIBRARY_DIR),
        Mount(injection.client_dir, RunDir(SYSTEM_RUN_DIR).client_socket.parent),
        *injection.mounts,
    ]
    if DeviceListStrategy.VOLUME_MOUNTS in injection.strategies:
        made += [Mount(Path("/dev/null"), VOLUME_MOUNTS_DIR / uuid, read_only=False) for uuid in uuids]
    return tuple(made)


def device_nodes(paths: Iterable[Path], injection: Injection) -> tuple[DeviceNode, ...]:
    """The device nodes at these paths of a container, each once."""
    return tuple(DeviceNode(injection.dev_root / path.relative_to("/"), path) for path in dict.fromkeys(paths))


def uses_cdi(strategies: Collection[DeviceListStrategy]) -> bool:
    """Whether an allocation names CDI devices: those of NVIDIA's, and ours, which must be described then."""
    return DeviceListStrategy.CDI_CRI in strategies or DeviceListStrategy.CDI_ANNOTATIONS in strategies


def reserved_environment() -> frozenset[str]:
    """The variables that an allocation sets itself; the settings may not."""
    return frozenset({LD_PRELOAD, RUN_DIR, NVIDIA_VISIBLE_DEVICES})


def reserved_mounts() -> frozenset[Path]:
    """The container's folders that an allocation mounts itself; the settings may not."""
    return frozenset({CONTAINER_LIBRARY_DIR, RunDir(SYSTEM_RUN_DIR).client_socket.parent, VOLUME_MOUNTS_DIR})


def _annotations(uuids: Sequence[str], ids: Sequence[str], injection: Injection) -> dict[str, str]:
    if DeviceListStrategy.CDI_ANNOTATIONS not in injection.strategies:
        return {}
    # The key only has to differ between the allocations of one container, and be the same when asked again.
    digest = hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:32]
    return {f"{injection.cdi_annotation_prefix}{_CDI_PLUGIN}_{digest}": ",".join(_cdi_names(uuids, injection))}


def _cdi_names(uuids: Sequence[str], injection: Injection) -> tuple[str, ...]:
    return tuple(cdi.device(kind, uuid) for kind in (injection.cdi_kind, injection.cdi_own_kind) for uuid in uuids)
