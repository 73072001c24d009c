"""Which GPUs are offered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvshare.deviceplugin.devices import Gpu
from nvshare.deviceplugin.gpus.discovery import MigStrategy, Selection, discover, resource_of

A, B = Gpu("GPU-a", "0"), Gpu("GPU-b", "1")
M0 = Gpu("MIG-0", "2:0", parent_uuid="GPU-c", gpu_instance=1, compute_instance=0)
M1 = Gpu("MIG-1", "2:1", parent_uuid="GPU-c", gpu_instance=2, compute_instance=0)
NODE = (A, B, M0, M1)
FOLDER = "/var/run/nvidia-container-devices"


def found(selection: Selection, nvml: tuple[Gpu, ...] | None = NODE) -> list[str]:
    return [gpu.uuid for gpu in discover(selection, nvml).gpus]


@pytest.mark.parametrize("visible", [None, "", "all", "void", FOLDER])
def test_all_by_nvml(visible: str | None) -> None:
    """Where nothing is chosen, all that NVML shows is offered, MIG devices by their own UUID."""
    assert found(Selection(visible=visible)) == ["GPU-a", "GPU-b", "MIG-0", "MIG-1"]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("GPU-b", ["GPU-b"]),
        ("GPU-b,GPU-a", ["GPU-a", "GPU-b"]),
        ("1,0", ["GPU-a", "GPU-b"]),
        (" 1 , GPU-a,", ["GPU-a", "GPU-b"]),
        ("2:1", ["MIG-1"]),
        ("GPU-c", ["MIG-0", "MIG-1"]),
        ("MIG-0,MIG-0", ["MIG-0"]),
        ("none", []),
    ],
)
def test_chosen_by_the_environment(visible: str, expected: list[str]) -> None:
    """UUIDs or indices, in any order; a GPU in MIG mode means its MIG devices."""
    assert found(Selection(visible=visible)) == expected


@pytest.mark.parametrize(
    ("visible", "shown"),
    [("1", (Gpu("GPU-b", "0"),)), ("1,2", (Gpu("GPU-b", "0"), Gpu("GPU-c", "1"))), ("2", (M0, M1))],
)
def test_chosen_by_the_runtime(visible: str, shown: tuple[Gpu, ...]) -> None:
    """Where a runtime left as many GPUs as the indices name, these are meant, whatever NVML numbers them there."""
    discovery = discover(Selection(visible=visible), shown)
    assert (discovery.gpus, discovery.warnings) == (shown, ())


def test_the_environment_wins_over_the_folder() -> None:
    """The folder counts only when the variable names it or nothing."""
    assert found(Selection(visible="GPU-a", mounted=("GPU-b",))) == ["GPU-a"]
    assert found(Selection(visible=FOLDER, mounted=("GPU-b",))) == ["GPU-b"]
    assert found(Selection(mounted=("GPU-b",))) == ["GPU-b"]


def test_without_mig() -> None:
    """mig_strategy none: GPUs in MIG mode are left to others, which is said once for each GPU."""
    discovery = discover(Selection(mig=MigStrategy.NONE), NODE)
    assert [gpu.uuid for gpu in discovery.gpus] == ["GPU-a", "GPU-b"]
    assert discovery.warnings == ("GPU-c is in MIG mode, and left out (mig_strategy: none)",)
    assert found(Selection(visible="MIG-0,GPU-a", mig=MigStrategy.NONE)) == ["GPU-a"]
    assert found(Selection(visible="MIG-0,GPU-a", mig=MigStrategy.NONE), None) == ["GPU-a"]


def test_mig_devices_by_their_profiles() -> None:
    """mig_strategy mixed: all are offered but a MIG device whose profile nobody knows, which is said."""
    small = replace(M0, mig_profile="1g.10gb")
    discovery = discover(Selection(mig=MigStrategy.MIXED), (A, small, M1))
    assert discovery.gpus == (A, small)
    assert discovery.warnings == ("MIG-1: NVML does not say its profile: left out (mig_strategy: mixed)",)
    assert found(Selection(visible="MIG-0,GPU-a", mig=MigStrategy.MIXED), None) == ["GPU-a"]
    assert found(Selection(exclude=("2:0",), mig=MigStrategy.MIXED), (A, small)) == ["GPU-a"]


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        ("1g.10gb", "a.example/mig-1g.10gb"),
        ("1g.10gb+me", "a.example/mig-1g.10gb.me"),
        ("1g.23gb+me.all", "a.example/mig-1g.23gb.me.all"),
        ("1g.23gb-me", "a.example/mig-1g.23gb-me"),
        ("2c.4g.40gb", "a.example/mig-2c.4g.40gb"),
        (None, "a.example/gpu"),
    ],
)
def test_resources_of_profiles(profile: str | None, name: str) -> None:
    """As NVIDIA's device plugin names them, in the domain of the resource of whole GPUs; else under that itself."""
    assert resource_of(replace(M0, mig_profile=profile), "a.example/gpu", MigStrategy.MIXED) == name
    assert resource_of(replace(M0, mig_profile=profile), "a.example/gpu", MigStrategy.SINGLE) == "a.example/gpu"


def test_without_nvml() -> None:
    """UUIDs suffice; indices don't, which is said; nothing at all is a node without GPUs."""
    assert found(Selection(visible="GPU-b,GPU-a"), None) == ["GPU-b", "GPU-a"]
    assert found(Selection(), None) == []
    assert found(Selection(visible="all"), None) == []
    discovery = discover(Selection(visible="0,GPU-a"), None)
    assert [gpu.uuid for gpu in discovery.gpus] == ["GPU-a"]
    (warning,) = discovery.warnings
    assert "0 can't be told without NVML" in warning


def test_include_and_exclude() -> None:
    """Lists of UUIDs or indices; exclusion wins."""
    assert found(Selection(include=("0", "MIG-1"))) == ["GPU-a", "MIG-1"]
    assert found(Selection(exclude=("GPU-a", "2:0"))) == ["GPU-b", "MIG-1"]
    assert found(Selection(include=("0", "1"), exclude=("1",))) == ["GPU-a"]
    assert found(Selection(visible="GPU-a", include=("GPU-b",))) == []


@pytest.mark.parametrize(
    ("selection", "source"),
    [
        (Selection(visible="GPU-a,GPU-x"), "NVIDIA_VISIBLE_DEVICES"),
        (Selection(mounted=("GPU-x",)), FOLDER),
        (Selection(include=("GPU-a", "GPU-x")), "include"),
        (Selection(exclude=("GPU-x",)), "exclude"),
        (Selection(configured=("GPU-x",)), "virtual_devices_per_gpu"),
    ],
)
def test_an_unknown_gpu_is_named(selection: Selection, source: str) -> None:
    """One file serves all nodes, so a GPU of another node is no error; but it is said, with what is here."""
    (warning,) = discover(selection, NODE).warnings
    assert warning.startswith(source)
    assert "GPU-x" in warning
    assert "0=GPU-a" in warning
