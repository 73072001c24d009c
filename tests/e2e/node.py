"""The cluster's node, seen from a pod that sees its processes and the folder of its simulated GPUs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from nvshare.paths import KUBELET_DIR
from nvshare.simgpu.transfers import work
from nvshare.simgpu.turns import Kind, Span, overlaps, turns
from tests.e2e.kubectl import TESTS, KubectlError, Object, apply, eventually, kubectl
from tests.e2e.programs import IMAGE, VERSION

POD = "node"
STATE = "/var/run/nvshare-simulated"
LIBRARIES = "/var/lib/nvshare"
CDI = "/var/run/cdi"
TURN_SECONDS = 150
"""Four turns take so long where one is 24 hand-overs of 1.5 s, as on a machine that has much else to do."""

_SPANS = f"""
import dataclasses, json, sys
from pathlib import Path
from nvshare.simgpu import record
since, folder = int(sys.argv[1]), Path({STATE!r})
files = sorted(folder.glob("record-*"), key=lambda path: int(path.name.partition("-")[2]))
spans = [[span for span in record.read(folder, index) if span.start_ns >= since] for index in range(len(files))]
print(json.dumps([[dataclasses.astuple(span) for span in device] for device in spans]))
"""
_FIND = """
import os, signal, sys
from pathlib import Path
def find(program):
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\\0")[:2]
        except OSError:
            continue
        if any(os.path.basename(word).decode(errors="replace") == program for word in words):
            yield int(process.name)
"""
_KILL = f"""{_FIND}
for pid in find(sys.argv[1]):
    os.kill(pid, signal.SIGKILL)
"""
_KILL_PARENT = f"""{_FIND}
for pid in find(sys.argv[1]):
    status = Path(f"/proc/{{pid}}/status").read_text()
    os.kill(int(status.split("PPid:")[1].split()[0]), signal.SIGKILL)
"""
_KILL_IN_TRANSFER = f"""{_FIND}
import time
from nvshare.simgpu import record, transfers
folder, [victim], begin, end = Path({STATE!r}), find(sys.argv[1]), time.monotonic_ns(), time.monotonic() + 50
def began():
    spans = [span for index in range(int(sys.argv[3])) for span in record.read(folder, index, newest=32)]
    return any(transfers.swaps(span) and span.name == sys.argv[2] and span.start_ns > begin for span in spans)
while not began():
    if time.monotonic() > end:
        sys.exit("nothing was swapped")
    time.sleep(0.0005)
os.kill(victim, signal.SIGKILL)
"""
_RESIDENT = f"""{_FIND}
for pid in find(sys.argv[1]):
    print(next(line.split()[1] for line in Path(f"/proc/{{pid}}/status").open() if line.startswith("VmRSS:")))
"""
_WRITE = """
import sys
from pathlib import Path
Path(sys.argv[1]).write_text(sys.argv[2])
"""
_MEMORY = """
import sys
from pathlib import Path
seen = Path("/proc", sys.argv[1], "root", "sys/fs/cgroup")
files = (seen / "memory.current", seen / "memory/memory.usage_in_bytes")
print(next(file.read_text() for file in files if file.exists()))
"""
_UNNAMED = """
import glob, json, os, sys
device, found = os.stat("/proc/1/root" + sys.argv[1]).st_dev, {}
for link in glob.iglob("/proc/[0-9]*/fd/*"):
    try:
        name, status = os.readlink(link), os.stat(link)
    except OSError:  # it has ended
        continue
    used = status.st_blocks * 512
    if status.st_dev == device and used >= int(sys.argv[2]) and name.endswith(f"/#{status.st_ino} (deleted)"):
        found[status.st_ino] = used
print(json.dumps(found))
"""
_NAMES = """
import json, sys
from pathlib import Path
print(json.dumps([path.name for path in Path("/proc/1/root" + sys.argv[1]).glob("*" + sys.argv[2])]))
"""
_STARTED_AT = """
import sys
from pathlib import Path
found = []
for path in Path("/proc").glob("[0-9]*"):
    try:
        name, start = (path / "comm").read_text().strip(), (path / "stat").read_text().split()[21]
    except OSError:  # it has ended
        continue
    if name == sys.argv[1]:
        found.append((path.name, start))
print(found)
"""
_PODS = """
import json, re, sys
from pathlib import Path
found = {}
for pid in sys.argv[1:]:
    text = Path(f"/proc/{pid}/cgroup").read_text()
    found[pid] = re.search("pod([0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})", text)[1].replace("_", "-")
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Node:
    """What tests ask of the node and do to it."""

    def clock_ns(self) -> int:
        """The node's CLOCK_MONOTONIC, which the records use."""
        return int(_python("import time; print(time.monotonic_ns())"))

    def spans(self, since_ns: int = 0) -> list[list[Span]]:
        """What each simulated GPU has executed for programs since then; memory that was swapped is not among it."""
        devices: list[list[list[Any]]] = json.loads(_python(_SPANS, str(since_ns)))
        return [work(Span(row[0], Kind(row[1]), *row[2:]) for row in rows) for rows in devices]

    def uuids(self) -> list[str]:
        """The simulated GPUs, in the order of ``spans``."""
        variables = [f"LD_LIBRARY_PATH={LIBRARIES}/simulated-{VERSION}", f"NVSHARE_SIMGPU_DIR={STATE}"]
        probe = ["env", *variables, "python3", "-m", "nvshare.demo.device_list"]
        devices = json.loads(kubectl("exec", "--namespace", TESTS, POD, "--", *probe))
        return [device["uuid"] for device in devices]

    def kill(self, program: str) -> None:
        """kill -9 for every process of that name. The one that carries the command may be among those it needs."""
        try:
            _python(_KILL, program)
        except KubectlError as error:
            if "python3" in str(error) and "Traceback" in str(error):
                raise

    def kill_shim(self, program: str) -> None:
        """kill -9 for the process of the container runtime that looks after the program's container."""
        _python(_KILL_PARENT, program)

    def started_at(self, program: str) -> str:
        """When the program's processes were started, in the kernel's ticks, with their pids."""
        return _python(_STARTED_AT, program)

    def kill_in_transfer(self, program: str, direction: str, gpus: int) -> None:
        """kill -9 for a process when one of the GPUs has swapped the first piece in a direction, and has more to do."""
        _python(_KILL_IN_TRANSFER, program, direction, str(gpus))

    def remove(self, folder: str) -> None:
        """rm -rf on the node, as the node's first process sees it."""
        _python("import shutil, sys; shutil.rmtree('/proc/1/root' + sys.argv[1])", folder)

    def sicken(self, nvml: str) -> None:
        """What NVML answers on the simulated GPUs from now on: see the simulator's README.md. Empty: all is well."""
        _python(_WRITE, f"{STATE}/nvml", nvml)

    def resident_bytes(self, program: str) -> int:
        """What the one process of that name has in memory, with its part of files that others have there too."""
        return int(_python(_RESIDENT, program)) << 10

    def describe_devices(self, name: str, specification: Object) -> None:
        """Writes a CDI specification where the container runtime looks for it."""
        _python(_WRITE, f"{CDI}/{name}.json", json.dumps(specification))

    def memory_bytes(self, pid: int) -> int:
        """What the memory cgroup of the process's container is charged with."""
        return int(_python(_MEMORY, str(pid)))

    def pod_uids(self, pids: list[int]) -> dict[int, str]:
        """The pod of each process, by its cgroup."""
        return {int(pid): uid for pid, uid in json.loads(_python(_PODS, *map(str, pids))).items()}

    def unnamed_files(self, folder: str, least_bytes: int) -> dict[str, int]:
        """What the files take of the folder's disk that never had a name and that processes have open, by their inodes.

        Only of those that take so much at least: others have small ones there as well, under inodes that were used
        before. Linux names them so, except where the file system is of several layers.
        """
        found: dict[str, int] = json.loads(_python(_UNNAMED, folder, str(least_bytes)))
        return found

    def libraries(self) -> set[str]:
        """The versions of the library that are installed."""
        return set(kubectl("exec", "--namespace", TESTS, POD, "--", "ls", LIBRARIES).split())

    def locks(self) -> list[str]:
        """The plugin's lock files in kubelet's folder."""
        return self.names(str(KUBELET_DIR), ".lock")

    def names(self, folder: str, ending: str) -> list[str]:
        """The files of a folder of the node, as its first process sees it, whose names end so."""
        found: list[str] = json.loads(_python(_NAMES, folder, ending))
        return found

    def took_turns(self, since_ns: int, clients: list[int]) -> bool:
        """Whether on each GPU this number of clients computed since then, each more than once if there are several."""
        return all(
            len({span.client for span in spans}) == count and len(turns(spans)) > count * (count > 1)
            for spans, count in zip(self.spans(since_ns), clients, strict=True)
        )


def check_turns(devices: list[list[Span]]) -> None:
    """No two processes were on one GPU at the same time."""
    for spans in devices:
        assert not overlaps(spans), turn_list(spans)


def turn_list(spans: list[Span]) -> list[tuple[int, int]]:
    """Clients in the order of their turns, with the number of operations: for a failed test's message."""
    return [(turn.client, turn.pieces) for turn in turns(spans)]


def start_node_pod() -> Node:
    """Starts the pod through which the node is seen."""
    apply(_manifest())
    eventually("the node's pod runs", lambda: _python("print(1)"), timeout=60)
    return Node()


def _python(code: str, *arguments: str) -> str:
    return kubectl("exec", "--namespace", TESTS, POD, "--", "python3", "-c", code, *arguments, timeout=60)


def _manifest() -> Object:
    paths = {"gpus": STATE, "libraries": LIBRARIES, "cdi": CDI}
    container = {
        "name": "node",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in paths.items()],
    }
    spec = {
        "hostPID": True,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "volumes": [
            {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for name, path in paths.items()
        ],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD, "namespace": TESTS}, "spec": spec}
