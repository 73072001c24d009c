"""What is allowed for each setting. Only the process that reads settings needs this, and pydantic."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationInfo,
    create_model,
)
from pydantic_core import PydanticCustomError

from nvshare import cdi
from nvshare.deviceplugin.answers.allocation import DeviceListStrategy, reserved_environment, reserved_mounts
from nvshare.deviceplugin.answers.preference import AllocationPolicy
from nvshare.deviceplugin.devices import MAX_VIRTUAL_DEVICES, RESOURCE_NAME, is_index, is_uuid
from nvshare.deviceplugin.gpus.discovery import MigStrategy
from nvshare.deviceplugin.gpus.health import APPLICATION_XIDS
from nvshare.deviceplugin.settings.configuration import AllocationMode, Configuration, ExtraMount
from nvshare.http import is_address
from nvshare.kubernetes.names import NODE_NAME, is_node_name
from nvshare.log import LogFormat, LogLevel

MOST_OVERCOMMIT = 10

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_RESOURCE = re.compile(rf"({_LABEL}\.)*{_LABEL}/[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?")
_LONGEST_RESOURCE_DOMAIN = 244
"""With Kubernetes' own ``requests.`` before it, a domain has at most 253 characters."""
_CDI_KIND = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ANNOTATION_PREFIX = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?)/")
# A socket's path has at most 107 bytes; the plugin's own socket gets a name of up to 40 in this folder.
_LONGEST_KUBELET_DIR = 66

_Allowed = Mapping[str, tuple[Any, str]]
"""For each field: how it is checked, and what is allowed, as it stands in the message about a wrong value."""


def _refuse(why: str) -> PydanticCustomError:
    return PydanticCustomError("nvshare", "{why}", {"why": why})


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise _refuse("it has a NUL character")
    return text


def _node(name: str) -> str:
    if not is_node_name(name):
        raise _refuse("not of that form")
    return name


def _absolute(path: Path) -> Path:
    _without_nul(str(path))
    if not PurePosixPath(path).is_absolute() or ".." in path.parts:
        raise _refuse("not an absolute path without '..'")
    return path


def _short(path: Path) -> Path:
    if len(str(path)) > _LONGEST_KUBELET_DIR:
        raise _refuse(f"{len(str(path))} characters are too long for the path of a socket in it")
    return path


def _uuid(text: str) -> str:
    if not is_uuid(text):
        raise _refuse("not the UUID of a GPU or MIG device")
    return text


def _gpu_name(text: str) -> str:
    if not is_uuid(text) and not is_index(text):
        raise _refuse("neither a UUID nor an index")
    return text


def _address(text: str) -> str:
    if not is_address(text):
        raise _refuse("not of the form HOST:PORT")
    return text


def _extended(resource: str) -> str:
    domain = resource.partition("/")[0]
    if domain.endswith("kubernetes.io") or domain.startswith("requests."):
        raise _refuse("kubelet refuses domains that end in kubernetes.io or begin with requests.")
    if len(domain) > _LONGEST_RESOURCE_DOMAIN:
        raise _refuse(f"a domain of more than {_LONGEST_RESOURCE_DOMAIN} characters")
    return resource


def _not_empty(strategies: tuple[DeviceListStrategy, ...]) -> tuple[DeviceListStrategy, ...]:
    if not strategies:
        raise _refuse("empty")
    return strategies


def _own_kind(kind: str) -> str:
    if not cdi.is_kind(kind):
        raise _refuse("not of that form")
    if kind.startswith("nvidia.com/"):
        raise _refuse("the runtime would confuse its devices with NVIDIA's")
    return kind


def _foreign_kind(kind: str, info: ValidationInfo) -> str:
    if kind == info.data.get("cdi_own_kind"):
        raise _refuse("the kind of nvshare's own devices")
    return kind


def _free_container_path(path: Path) -> Path:
    taken = next((own for own in reserved_mounts() if path == own or own in path.parents or path in own.parents), None)
    if taken is not None:
        raise _refuse(f"{taken} is mounted by the plugin itself")
    return path


def _free_variable(name: str) -> str:
    if _VARIABLE.fullmatch(name) is None:
        raise _refuse("not the name of an environment variable")
    if name in reserved_environment():
        raise _refuse("set by the plugin itself")
    return name


def _only_with_claims(overcommit: float, info: ValidationInfo) -> float:
    # Where the allocation is wrong itself, that is the mistake.
    if overcommit != 1 and info.data.get("allocation") is AllocationMode.PLUGIN:
        raise _refuse("only with allocation: dra; virtual devices have no memory that could be overcommitted")
    return overcommit


def _text(value: Any) -> Any:
    """YAML reads a GPU's index as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _matches(pattern: re.Pattern[str]) -> AfterValidator:
    def check(text: str) -> str:
        if pattern.fullmatch(text) is None:
            raise _refuse("not of that form")
        return text

    return AfterValidator(check)


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
Overcommit = Annotated[float, Field(ge=1, le=MOST_OVERCOMMIT, strict=True, allow_inf_nan=False)]
VirtualDevices = Annotated[StrictInt, Field(ge=1, le=MAX_VIRTUAL_DEVICES)]
GpuName = Annotated[StrictStr, BeforeValidator(_text), AfterValidator(_gpu_name)]
Uuid = Annotated[StrictStr, AfterValidator(_uuid)]
Seconds = Annotated[float, Field(ge=0, le=86400, strict=True, allow_inf_nan=False)]
_COUNT = f"an integer from 1 to {MAX_VIRTUAL_DEVICES}"
_PATH = "an absolute path without '..'"
_SECONDS = "seconds from 0 to 86400"
_GPUS = "a list of GPU UUIDs or indices"
_BOOLEAN = "true or false"


def _mount(checked: BaseModel) -> ExtraMount:
    return ExtraMount(**dict(checked))


def _apart(mounts: tuple[ExtraMount, ...]) -> tuple[ExtraMount, ...]:
    places = Counter(PurePosixPath(mount.container_path) for mount in mounts)
    if twice := [place for place, count in places.items() if count > 1]:
        raise _refuse(f"{twice[0]} is mounted twice")
    return mounts


def _model(of: type[ExtraMount | Configuration], allowed: _Allowed) -> type[BaseModel]:
    """Checks the fields of that class, of which it has the order and the values where nothing is said."""
    found: dict[str, Any] = {}
    for each in fields(of):
        check, text = allowed[each.name]
        if each.default_factory is not MISSING:
            found[each.name] = check, Field(default_factory=each.default_factory, description=text)
        else:
            found[each.name] = check, Field(default=... if each.default is MISSING else each.default, description=text)
    return create_model(of.__name__, __config__=ConfigDict(extra="forbid"), **found)


_MOUNT_ALLOWED: Final[_Allowed] = {
    "host_path": (AbsolutePath, _PATH),
    "container_path": (
        Annotated[AbsolutePath, AfterValidator(_free_container_path)],
        f"{_PATH}, other than where the plugin mounts its own",
    ),
    "read_only": (StrictBool, _BOOLEAN),
}
_MOUNT: Final = _model(ExtraMount, _MOUNT_ALLOWED)
_ALLOWED: Final[_Allowed] = {
    "resource_name": (
        Annotated[StrictStr, _matches(_RESOURCE), AfterValidator(_extended)],
        f"DOMAIN/NAME, as in {RESOURCE_NAME}",
    ),
    "allocation": (AllocationMode, " or ".join(AllocationMode)),
    "overcommit": (
        Annotated[Overcommit, AfterValidator(_only_with_claims)],
        f"a number from 1 to {MOST_OVERCOMMIT}, and other than 1 only with allocation: dra",
    ),
    "node_name": (Annotated[StrictStr, AfterValidator(_node)], NODE_NAME),
    "kubelet_dir": (
        Annotated[AbsolutePath, AfterValidator(_short)],
        f"{_PATH}, of at most {_LONGEST_KUBELET_DIR} characters",
    ),
    "library_dir": (AbsolutePath, _PATH),
    "run_dir": (AbsolutePath, _PATH),
    "virtual_devices": (VirtualDevices, _COUNT),
    "virtual_devices_per_gpu": (dict[Uuid, VirtualDevices], f"GPU UUIDs, each with {_COUNT}"),
    "include": (tuple[GpuName, ...], _GPUS),
    "exclude": (tuple[GpuName, ...], _GPUS),
    "device_list_strategy": (
        Annotated[tuple[DeviceListStrategy, ...], AfterValidator(_not_empty)],
        f"one or more of {', '.join(DeviceListStrategy)}",
    ),
    "cdi_own_kind": (
        Annotated[StrictStr, AfterValidator(_own_kind)],
        f"VENDOR/CLASS, as in {cdi.KIND}, other than NVIDIA's",
    ),
    "cdi_kind": (
        Annotated[StrictStr, _matches(_CDI_KIND), AfterValidator(_foreign_kind)],
        "VENDOR/CLASS, as in nvidia.com/gpu",
    ),
    "cdi_annotation_prefix": (Annotated[StrictStr, _matches(_ANNOTATION_PREFIX)], "DOMAIN/, as in cdi.k8s.io/"),
    "cdi_spec_dir": (AbsolutePath, _PATH),
    "compat_with_cpu_manager": (StrictBool, _BOOLEAN),
    "nvidia_dev_root": (AbsolutePath, _PATH),
    "require_distinct": (StrictBool, _BOOLEAN),
    "fail_requests_greater_than_one": (StrictBool, _BOOLEAN),
    "allocation_policy": (AllocationPolicy, " or ".join(AllocationPolicy)),
    "weigh_by_load": (StrictBool, _BOOLEAN),
    "numa_hints": (StrictBool, _BOOLEAN),
    "mig_strategy": (MigStrategy, " or ".join(MigStrategy)),
    "memory": (Literal["managed", "native", "swap"] | None, "managed, native or swap"),
    "on_missing": (Literal["run", "wait", "fail"] | None, "run, wait or fail"),
    "ignored_xids": (
        tuple[Annotated[StrictInt, Field(ge=1, le=9999)], ...],
        f"a list of integers from 1 to 9999 (always ignored: {sorted(APPLICATION_XIDS)})",
    ),
    "recovery_seconds": (Seconds, _SECONDS),
    "scheduler_grace_seconds": (Seconds, _SECONDS),
    "fail_on_init_error": (StrictBool | None, _BOOLEAN),
    "init_error_seconds": (Seconds, _SECONDS),
    "metrics_address": (Annotated[StrictStr, AfterValidator(_address)], "HOST:PORT, as in 0.0.0.0:9403"),
    "log_format": (LogFormat, "text or json"),
    "log_level": (LogLevel, "debug, info, warning or error"),
    "extra_mounts": (
        Annotated[
            tuple[Annotated[_MOUNT, AfterValidator(_mount)], ...],  # type: ignore[valid-type]
            AfterValidator(_apart),
        ],
        "a list of mounts with host_path, container_path and read_only",
    ),
    "extra_env": (
        dict[Annotated[StrictStr, AfterValidator(_free_variable)], Annotated[StrictStr, AfterValidator(_without_nul)]],
        f"environment variables with text values, except {', '.join(sorted(reserved_environment()))}",
    ),
}
_CONFIGURATION: Final = _model(Configuration, _ALLOWED)

MOUNT_FIELDS: Final = _MOUNT.model_fields
FIELDS: Final = _CONFIGURATION.model_fields


def checked(values: Mapping[str, Any]) -> Configuration:
    """The settings of which these are set; raises pydantic's ValidationError."""
    return Configuration(**dict(_CONFIGURATION.model_validate(values)))
