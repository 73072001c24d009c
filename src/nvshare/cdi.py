"""CDI: how a container runtime is told what makes a container one of nvshare's. Pure.

A runtime that is asked for a device KIND=NAME looks it up in the files of its CDI folders, and edits the container as
they say. It does that last: what CDI sets is set in the container, whatever its image and its pod say. The GPU itself
comes with a device of NVIDIA's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nvshare.paths import CONTAINER_LIBRARY_DIR, LD_PRELOAD, LIBRARY_NAME, RUN_DIR, SYSTEM_RUN_DIR, RunDir

KIND = "nvshare.com/gpu"
ALL = "all"
"""The device whose name is always there."""
# The first that has all that is used here, so that older runtimes read it, too.
_VERSION = "0.5.0"
_KIND = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?")
_OPTIONS = ("ro", "nosuid", "nodev", "rbind", "rprivate")


def is_kind(text: str) -> bool:
    """Whether runtimes take it for the kind of a CDI device: VENDOR/CLASS."""
    return _KIND.fullmatch(text) is not None


def device(kind: str, name: str) -> str:
    """How a device is asked for."""
    return f"{kind}={name}"


def file_name(kind: str) -> str:
    """What the file of a kind is called, as runtimes' own tools would."""
    return f"{kind.replace('/', '-')}.json"


def specification(kind: str, names: Iterable[str], library_dir: Path, client_dir: Path) -> bytes:
    """The file's content: devices of these names, and ``all``. Each gives the container the same.

    ``library_dir`` and ``client_dir`` are the host's folders of the library and of the scheduler's client socket.
    """
    edits = {
        "env": [f"{LD_PRELOAD}={CONTAINER_LIBRARY_DIR / LIBRARY_NAME}", f"{RUN_DIR}={SYSTEM_RUN_DIR}"],
        "mounts": [
            {"hostPath": str(host), "containerPath": str(container), "options": _OPTIONS}
            for host, container in (
                (library_dir, CONTAINER_LIBRARY_DIR),
                (client_dir, RunDir(SYSTEM_RUN_DIR).client_socket.parent),
            )
        ],
    }
    devices = [{"name": name, "containerEdits": edits} for name in dict.fromkeys((*names, ALL))]
    return document(kind, devices)


def document(kind: str, devices: Sequence[Mapping[str, Any]]) -> bytes:
    """A file of devices of one kind, each with its name and its edits."""
    return json.dumps({"cdiVersion": _VERSION, "kind": kind, "devices": devices}, indent=1).encode() + b"\n"
