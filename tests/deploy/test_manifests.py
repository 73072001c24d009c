"""The manifests, without a cluster: that they agree with each other and with the package."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from nvshare.deviceplugin.configuration import Configuration
from nvshare.paths import KUBELET_DIR, POD_RESOURCES_SOCKET, SYSTEM_RUN_DIR
from nvshare.scheduler.arenas.choice import size_of
from nvshare.scheduler.arenas.limits import MARGIN_BYTES

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SCHEDULER_BYTES = 400 << 20
STACKS = [DEPLOY, DEPLOY / "simulated"]
stacks = pytest.mark.parametrize("folder", STACKS, ids=lambda folder: folder.name)


def documents(folder: Path) -> list[dict[str, Any]]:
    """Every object of a folder's manifests."""
    return [each for path in sorted(folder.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())]


def daemon_set(folder: Path, name: str) -> dict[str, Any]:
    """A DaemonSet of the stack."""
    return next(each for each in documents(folder) if each["kind"] == "DaemonSet" and each["metadata"]["name"] == name)


def test_the_simulated_stack_is_fresh() -> None:
    """Its files are what deploy/simulated/generate.py makes of the others."""
    assert list(runpy.run_path(str(DEPLOY / "simulated" / "generate.py"))["stale"]()) == []


def test_every_image_is_of_this_version() -> None:
    """Whatever names the image names it with the package's version."""
    files = [*DEPLOY.rglob("*.yaml"), DEPLOY / "Dockerfile", ROOT / "tests" / "e2e" / "next_version" / "Dockerfile"]
    for path in files:
        assert set(re.findall(r"nvshare/nvshare:([\w.]+)", path.read_text())) <= {VERSION}, path


def test_the_image_has_what_is_pinned_for_development() -> None:
    """The image's lock file pins every run-time dependency, to the version that the tests ran with."""

    def pins(path: Path) -> set[str]:
        return set(re.findall(r"^[\w.-]+==[^ ]+", path.read_text(), re.MULTILINE))

    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {pin.partition("==")[0] for pin in pins(DEPLOY / "requirements.lock")}
    assert {re.split("[<>=]", each)[0] for each in wanted} <= names
    assert pins(DEPLOY / "requirements.lock") <= pins(ROOT / "requirements.lock")


@stacks
def test_kustomize_names_every_manifest(folder: Path) -> None:
    """Nothing is forgotten in Kustomization."""
    listed = yaml.safe_load((folder / "Kustomization").read_text())["resources"]
    assert listed == sorted(path.name for path in folder.glob("*.yaml"))


@stacks
def test_the_settings_are_understood(folder: Path) -> None:
    """The plugin accepts the file that its ConfigMap holds."""
    (text,) = [each["data"]["config.yaml"] for each in documents(folder) if each["kind"] == "ConfigMap"]
    path = folder / "25-config.yaml"
    assert set(yaml.safe_load(text)) <= set(Configuration.model_fields), path


@stacks
def test_folders_are_mounted_where_they_are(folder: Path) -> None:
    """A path means the same on the node and in the parts' containers: kubelet gets the plugin's paths."""
    for name in ("nvshare-scheduler", "nvshare-device-plugin"):
        pod = daemon_set(folder, name)["spec"]["template"]["spec"]
        places = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            for mount in container["volumeMounts"]:
                assert mount["mountPath"] == places.get(mount["name"], mount["mountPath"])
    assert {str(SYSTEM_RUN_DIR), str(POD_RESOURCES_SOCKET.parent)} <= _places(folder, "nvshare-scheduler")
    assert {str(SYSTEM_RUN_DIR), str(KUBELET_DIR)} <= _places(folder, "nvshare-device-plugin")


@stacks
def test_no_more_rights_than_needed(folder: Path) -> None:
    """No privileged container, no capability, no writable image, no token; a memory limit; never two at once."""
    for name in ("nvshare-scheduler", "nvshare-device-plugin"):
        spec = daemon_set(folder, name)["spec"]
        pod = spec["template"]["spec"]
        assert spec["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0
        assert pod["automountServiceAccountToken"] is False
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            rights = container["securityContext"]
            assert rights == {
                "runAsUser": 0,
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


@stacks
def test_kubectl_need_not_be_told_which_container(folder: Path) -> None:
    """The one that serves; without a default kubectl says on each call which one it took."""
    for name in ("nvshare-scheduler", "nvshare-device-plugin"):
        template = daemon_set(folder, name)["spec"]["template"]
        (container,) = template["spec"]["containers"]
        assert template["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] == container["name"]


@stacks
def test_the_schedulers_limit_pays_for_the_host_memory(folder: Path) -> None:
    """Beside what the scheduler itself may need; with less it would not start, and none of it would be kept."""
    (container,) = daemon_set(folder, "nvshare-scheduler")["spec"]["template"]["spec"]["containers"]
    (wanted,) = [each.partition("=")[2] for each in container["args"] if each.startswith("--host-memory=")]
    limit = container["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    assert int(limit[:-2]) << 20 == size_of(wanted) + SCHEDULER_BYTES
    assert SCHEDULER_BYTES > 2 * MARGIN_BYTES


def _places(folder: Path, name: str) -> set[str]:
    volumes = daemon_set(folder, name)["spec"]["template"]["spec"]["volumes"]
    return {volume["hostPath"]["path"] for volume in volumes if "hostPath" in volume}
