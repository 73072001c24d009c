"""The description of nvshare's CDI devices, as runtimes read it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nvshare import cdi

LIBRARY, CLIENT = Path("/var/lib/nvshare/0.2.0-abc"), Path("/var/run/nvshare/client")
UUIDS = ("GPU-8b4d5ab1-1b2c", "MIG-41b36db1-b5c6")


def content(*names: str) -> dict[str, object]:
    parsed: dict[str, object] = json.loads(cdi.specification("nvshare.com/gpu", names, LIBRARY, CLIENT))
    return parsed


def test_each_device_brings_the_same() -> None:
    """The preload, where the scheduler is, and both folders read-only; for each GPU, and for who names none."""
    document = content(*UUIDS)
    edits = {
        "env": ["LD_PRELOAD=/usr/lib/nvshare/libnvshare.so", "NVSHARE_RUN_DIR=/var/run/nvshare"],
        "mounts": [
            {
                "hostPath": str(host),
                "containerPath": container,
                "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"],
            }
            for host, container in ((LIBRARY, "/usr/lib/nvshare"), (CLIENT, "/var/run/nvshare/client"))
        ],
    }
    assert document == {
        "cdiVersion": "0.5.0",
        "kind": "nvshare.com/gpu",
        "devices": [{"name": name, "containerEdits": edits} for name in (*UUIDS, "all")],
    }


def test_names_are_valid() -> None:
    """A device's name begins and ends with a letter or digit and has -_.: between; no name is there twice."""
    names = [device["name"] for device in content(*UUIDS, "all")["devices"]]  # type: ignore[attr-defined]
    assert len(names) == len(set(names)) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?", name) for name in names)


@pytest.mark.parametrize(
    ("kind", "valid"),
    [
        ("nvshare.com/gpu", True),
        ("vendor/class-1", True),
        ("nvshare.com/gpu.shared", False),
        ("nvshare.com", False),
        ("3com.com/gpu", False),
        ("nvshare.com/1gpu", False),
        ("nvshare.com-/gpu", False),
        ("nvshare.com/gpu/1", False),
    ],
)
def test_kinds(kind: str, valid: bool) -> None:
    """VENDOR/CLASS; each begins with a letter and ends with a letter or digit, and a class has no dots."""
    assert cdi.is_kind(kind) is valid


def test_how_devices_are_asked_for() -> None:
    """By their qualified names; the file is called after the kind."""
    assert cdi.device(cdi.KIND, "GPU-a") == "nvshare.com/gpu=GPU-a"
    assert cdi.file_name(cdi.KIND) == "nvshare.com-gpu.json"
