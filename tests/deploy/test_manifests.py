"""The manifests, without a cluster: that they agree with each other and with the package."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from nvshare.deviceplugin.settings.checks import FIELDS
from nvshare.deviceplugin.settings.sources import ConfigurationError, load
from nvshare.paths import KUBELET_DIR, POD_RESOURCES_SOCKET, SYSTEM_RUN_DIR
from nvshare.scheduler.arenas.limits import MARGIN_BYTES
from nvshare.sizes import size_of

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SCHEDULER_BYTES = 400 << 20
CHART = DEPLOY / "helm" / "nvshare"
STACKS = [DEPLOY, DEPLOY / "simulated"]
PARTS = ("nvshare-scheduler", "nvshare-device-plugin", "nvshare-node-agent")
stacks = pytest.mark.parametrize("folder", STACKS, ids=lambda folder: folder.name)


def plain_files() -> list[Path]:
    """Every file of ``deploy/`` that kubectl reads as it is."""
    return [path for path in DEPLOY.rglob("*.yaml") if CHART not in path.parents]


def documents(folder: Path) -> list[dict[str, Any]]:
    """Every object of a folder's manifests."""
    return [each for path in sorted(folder.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())]


def daemon_set(folder: Path, name: str) -> dict[str, Any]:
    """A DaemonSet of the stack."""
    return next(each for each in documents(folder) if each["kind"] == "DaemonSet" and each["metadata"]["name"] == name)


def test_every_image_is_of_this_version() -> None:
    """Whatever names the image names it with the package's version."""
    files = [*DEPLOY.rglob("*.yaml"), DEPLOY / "Dockerfile", ROOT / "tests" / "e2e" / "next_version" / "Dockerfile"]
    for path in files:
        assert set(re.findall(r"nvshare/nvshare:([\w.]+)", path.read_text())) <= {VERSION}, path


def test_every_image_has_its_registry() -> None:
    """Without one, where an image comes from is for each node's runtime to decide."""
    images = [image for path in plain_files() for image in re.findall(r"image: *(\S+)", path.read_text())]
    assert images
    assert [image for image in images if not image.startswith("docker.io/")] == []


def test_a_release_pins_the_image(tmp_path: Path) -> None:
    """Every manifest of ``make pinned`` has version and digest; without a digest nothing is written."""
    pinned, digest = tmp_path / "dist" / "deploy", "sha256:" + "0123456789abcdef" * 4

    def make(digest: str) -> int:
        command = ["make", "--directory", str(ROOT), "pinned", f"DIGEST={digest}", f"PINNED={pinned}"]
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode

    assert make("sha256:1234") != 0
    assert make("") != 0
    assert not pinned.exists()
    assert make(digest) == 0
    for path in plain_files():
        image = f"docker.io/nvshare/nvshare:{VERSION}"
        text = (pinned / path.relative_to(DEPLOY)).read_text()
        assert text == path.read_text().replace(f"image: {image}\n", f"image: {image}@{digest}\n"), path
        assert text.count(digest) == path.read_text().count(f"image: {image}"), path
    assert digest in (pinned / "simulated" / "30-scheduler.yaml").read_text()
    values = pinned / "helm" / "nvshare" / "values.yaml"
    assert yaml.safe_load(values.read_text())["image"]["digest"] == digest


def test_the_image_has_what_is_pinned_for_development() -> None:
    """The image's lock file pins every run-time dependency, to the version that the tests ran with."""

    def pins(path: Path) -> set[str]:
        return set(re.findall(r"^[\w.-]+==[^ ]+", path.read_text(), re.MULTILINE))

    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {pin.partition("==")[0] for pin in pins(DEPLOY / "requirements.lock")}
    assert {re.split(r"[\[<>=]", each)[0] for each in wanted} <= names
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
    assert set(yaml.safe_load(text)) <= FIELDS.keys(), path


@stacks
@pytest.mark.parametrize("key", ["kubelet_dir", "library_dir", "run_dir", "metrics_address"])
def test_what_the_pod_fixes_is_refused_in_the_file(folder: Path, key: str, tmp_path: Path) -> None:
    """Another folder than is mounted, another port than is probed: no pod that runs in odd ways, but a message."""
    (container,) = daemon_set(folder, "nvshare-device-plugin")["spec"]["template"]["spec"]["containers"]
    flags = dict(each.removeprefix("--").split("=") for each in container["args"])
    flags = {name.replace("-", "_"): value for name, value in flags.items() if name != "config"}
    # kubelet puts the field of the pod there.
    assert flags["node_name"] == "$(NODE_NAME)"
    flags["node_name"] = "worker-1"
    (text,) = [each["data"]["config.yaml"] for each in documents(folder) if each["kind"] == "ConfigMap"]
    file = tmp_path / "config.yaml"
    file.write_text(text)
    configuration = load(flags, {}, file)
    assert str(configuration.metrics_address).endswith(f":{container['ports'][0]['containerPort']}")
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(configuration.kubelet_dir), str(configuration.library_dir), str(configuration.run_dir)} <= mounted
    assert set(yaml.safe_load(text)).isdisjoint(flags), "what is set twice counts once, and nobody knows which"
    file.write_text(f"{text}{key}: {'0.0.0.0:1' if key == 'metrics_address' else '/elsewhere'}\n")
    with pytest.raises(
        ConfigurationError, match=rf"{key}: .* is wrong: the command line has --{key.replace('_', '-')}="
    ):
        load(flags, {}, file)


@stacks
def test_folders_are_mounted_where_they_are(folder: Path) -> None:
    """A path means the same on the node and in the parts' containers: kubelet gets the plugin's paths."""
    for name in PARTS:
        pod = daemon_set(folder, name)["spec"]["template"]["spec"]
        places = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            for mount in container["volumeMounts"]:
                assert mount["mountPath"] == places.get(mount["name"], mount["mountPath"])
    assert {str(SYSTEM_RUN_DIR), str(POD_RESOURCES_SOCKET.parent)} <= _places(folder, "nvshare-scheduler")
    assert {str(SYSTEM_RUN_DIR), str(KUBELET_DIR)} <= _places(folder, "nvshare-device-plugin")


@stacks
def test_no_more_rights_than_needed(folder: Path) -> None:
    """No privileged container, no capability, no writable image, not every system call; a memory limit.

    A token has the node agent alone.
    """
    for name in PARTS:
        spec = daemon_set(folder, name)["spec"]
        pod = spec["template"]["spec"]
        assert pod["automountServiceAccountToken"] is (name == "nvshare-node-agent")
        assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
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
def test_the_agent_may_do_what_it_needs(folder: Path) -> None:
    """Look at pods and nodes, tell events, write the node's condition and label: nothing else, and nobody else that."""
    (role,) = [each for each in documents(folder) if each["kind"] == "ClusterRole"]
    (binding,) = [each for each in documents(folder) if each["kind"] == "ClusterRoleBinding"]
    allowed = {rule["resources"][0]: rule["verbs"] for rule in role["rules"]}
    assert allowed == {
        "pods": ["get", "list", "watch"],
        "events": ["create", "patch"],
        "nodes": ["get", "list", "watch", "patch"],
        "nodes/status": ["patch"],
    }
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [each["name"] for each in binding["subjects"]] == ["nvshare-node-agent"]
    (container,) = daemon_set(folder, "nvshare-node-agent")["spec"]["template"]["spec"]["containers"]
    assert "--node-name=$(NODE_NAME)" in container["args"]
    assert container["env"][0]["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}


@stacks
def test_an_operator_may_execute_in_a_daemonset(folder: Path) -> None:
    """``kubectl exec daemonset/...`` reads the DaemonSet, then its pods; the upgraded connection is a get."""
    (role,) = [each for each in documents(folder) if each["metadata"]["name"] == "nvshare-operator"]
    assert [(rule["apiGroups"], rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
        ([""], ["pods"], ["get", "list"]),
        ([""], ["pods/exec"], ["create", "get"]),
        (["apps"], ["daemonsets"], ["get"]),
    ]


@stacks
def test_what_a_rollout_does(folder: Path) -> None:
    """Of schedulers there are never two; the next plugin is there before the former one ends, and has its own ports."""
    scheduler, plugin = (daemon_set(folder, f"nvshare-{name}")["spec"] for name in ("scheduler", "device-plugin"))
    assert scheduler["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0
    assert plugin["updateStrategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    pod = plugin["template"]["spec"]
    assert not pod.get("hostNetwork")
    assert all("hostPort" not in port for container in pod["containers"] for port in container.get("ports", []))


@stacks
def test_kubectl_need_not_be_told_which_container(folder: Path) -> None:
    """The one that serves; without a default kubectl says on each call which one it took."""
    for name in PARTS:
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
