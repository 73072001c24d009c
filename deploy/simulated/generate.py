"""Makes the manifests of this folder from those of ``deploy/``: ``python deploy/simulated/generate.py``.

The same stack for nodes without GPUs. Scheduler and plugin see two simulated GPUs, and the plugin gives the simulated
driver to containers. What all of them share of these GPUs is in one folder of the node.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from nvshare.scheduler.arenas.choice import size_of

FOLDER = Path(__file__).resolve().parent
DEPLOY = FOLDER.parent
HEADER = "# Made by generate.py from ../{name}; change that one.\n"

# Small ones: what programs swap out takes real host memory.
DEVICES = "2x1GiB/32MiB"
# Enough for three programs on each of them that fill three quarters of it, on a node that may be small.
HOST_MEMORY = "6GiB"
# The default is half of such a GPU.
RESERVE = "32MiB"
# Short turns, so that one sees them.
QUANTUM_SECONDS = 2
HOST_LIBRARIES = "/var/lib/nvshare"
HOST_STATE = "/var/run/nvshare-simulated"
CONTAINER_DRIVER = "/usr/lib/nvshare-simulated"

# The folder's name has the version: a container keeps the driver that it began with.
INSTALL = """\
set -eu
mkdir -p "$LD_LIBRARY_PATH"
cd "$(python3 -c 'from nvshare import simgpu; print(simgpu.library_dir())')"
for library in *; do
  new=$(mktemp "$LD_LIBRARY_PATH/.$library.XXXXXX")
  cp "$library" "$new"
  chmod 755 "$new"
  mv "$new" "$LD_LIBRARY_PATH/$library"
done
chmod 777 "$NVSHARE_SIMGPU_DIR"
"""

Manifest = dict[str, Any]


def version() -> str:
    """nvshare's own."""
    return str(tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["version"])


def generate() -> dict[str, str]:
    """The text of every file of this folder that is made, by name."""
    files = {source.name: _file(source) for source in sorted(DEPLOY.glob("*.yaml"))}
    files["Kustomization"] = (DEPLOY / "Kustomization").read_text()
    return files


def _file(source: Path) -> str:
    documents = [_simulated(document) for document in yaml.safe_load_all(source.read_text())]
    text = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120)
    return HEADER.format(name=source.name) + text


def _simulated(document: Manifest) -> Manifest:
    if document["kind"] == "ConfigMap":
        document["data"]["config.yaml"] += yaml.dump(_plugin_settings(), sort_keys=False)
    if document["kind"] == "DaemonSet" and document["metadata"]["name"] != "nvshare-node-agent":
        pod = document["spec"]["template"]["spec"]
        _add_driver(pod)
        if document["metadata"]["name"] == "nvshare-scheduler":
            _fit(pod["containers"][0])
    return document


def _fit(scheduler: Manifest) -> None:
    """Gives the scheduler what programs on GPUs this small need; its limit falls by what that spares."""
    former = next(argument for argument in scheduler["args"] if argument.startswith("--host-memory="))
    spared_bytes = size_of(former.partition("=")[2]) - size_of(HOST_MEMORY)
    limits = scheduler["resources"]["limits"]
    limits["memory"] = f"{int(limits['memory'].removesuffix('Mi')) - (spared_bytes >> 20)}Mi"
    own = (f"--host-memory={HOST_MEMORY}", f"--reserve={RESERVE}", f"--quantum={QUANTUM_SECONDS}")
    scheduler["args"] = [argument for argument in scheduler["args"] if argument != former] + list(own)


def _driver() -> str:
    return f"{HOST_LIBRARIES}/simulated-{version()}"


def _environment() -> list[Manifest]:
    values = {"LD_LIBRARY_PATH": _driver(), "NVSHARE_SIMGPU_DIR": HOST_STATE, "NVSHARE_SIMGPU_DEVICES": DEVICES}
    return [{"name": name, "value": value} for name, value in values.items()]


def _plugin_settings() -> Manifest:
    """What every container gets beside nvshare itself."""
    return {
        "extra_mounts": [
            {"host_path": _driver(), "container_path": CONTAINER_DRIVER},
            {"host_path": HOST_STATE, "container_path": HOST_STATE, "read_only": False},
        ],
        "extra_env": {"LD_LIBRARY_PATH": CONTAINER_DRIVER, "NVSHARE_SIMGPU_DIR": HOST_STATE},
    }


def _add_driver(pod: Manifest) -> None:
    """Lets the pod's container use the simulated GPUs, with a driver that its first init container installs."""
    container = pod["containers"][0]
    names = {volume["name"] for volume in pod["volumes"]}
    for name, path in (("library", HOST_LIBRARIES), ("simulated-gpus", HOST_STATE)):
        if name not in names:
            pod["volumes"].append({"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}})
    state = {"name": "simulated-gpus", "mountPath": HOST_STATE}
    library = {"name": "library", "mountPath": HOST_LIBRARIES}
    installer = {
        "name": "install-simulated-driver",
        "image": container["image"],
        "imagePullPolicy": container["imagePullPolicy"],
        "command": ["sh", "-c", INSTALL],
        "env": _environment(),
        "resources": {"requests": {"cpu": "20m", "memory": "40Mi"}, "limits": {"memory": "200Mi"}},
        "securityContext": dict(container["securityContext"]),
        "volumeMounts": [dict(library), dict(state)],
    }
    pod["initContainers"] = [installer, *pod.get("initContainers", [])]
    container["env"] += _environment()
    container["volumeMounts"].append(state)
    if all(mount["name"] != "library" for mount in container["volumeMounts"]):
        container["volumeMounts"].append({**library, "readOnly": True})


class _Dumper(yaml.SafeDumper):
    """Writes every value out (no anchors), and texts of several lines as such."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def stale() -> Iterator[str]:
    """The names of files that are not what they would be made of now."""
    for name, text in generate().items():
        path = FOLDER / name
        if not path.is_file() or path.read_text() != text:
            yield name


def main() -> None:
    """Writes what is stale."""
    for name in stale():
        (FOLDER / name).write_text(generate()[name])
        print(FOLDER / name, file=sys.stderr)


if __name__ == "__main__":
    main()
