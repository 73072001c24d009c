"""The pods that the tests start, and what they say."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nvshare.demo.many import plan as many
from tests.e2e.kubectl import RESOURCE, ROOT, TESTS, KubectlError, Object, eventually, get, kubectl

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGE = f"docker.io/nvshare/nvshare:{VERSION}"
NEXT_IMAGE = "docker.io/nvshare/nvshare:next"
FORMER_IMAGE = "docker.io/nvshare/nvshare:former"

ENDLESS_STEPS = 10_000_000
STEP_NS = 20_000_000
BLOCKS = 4
BLOCK_BYTES = 192 << 20
_BEGIN = "/dev/shm/begin"
_END = "/dev/shm/end"
_REQUEST = "/dev/shm/request"


@dataclass(frozen=True, slots=True)
class Running:
    """A pod whose program computes."""

    name: str
    uid: str
    container: str
    device: str


def pod(
    name: str,
    command: Sequence[str],
    gpus: int = 1,
    environment: Mapping[str, str] | None = None,
    memory: str | None = None,
) -> Object:
    """A pod of one container with ``gpus`` virtual devices, and no limit of its memory if none is given."""
    container = {
        "name": "program",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "env": [{"name": key, "value": value} for key, value in (environment or {}).items()],
        "resources": {"limits": {RESOURCE: gpus} | ({"memory": memory} if memory else {})},
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": TESTS}, "spec": spec}


def pod_of(
    name: str, containers: Mapping[str, Sequence[str]], before: Mapping[str, Sequence[str]] | None = None
) -> Object:
    """A pod of several containers, each with a virtual device of its own; ``before`` are its init containers."""
    made = pod(name, [])
    (template,) = made["spec"]["containers"]

    def with_commands(commands: Mapping[str, Sequence[str]]) -> list[Object]:
        return [template | {"name": key, "command": list(command)} for key, command in commands.items()]

    made["spec"] |= {"containers": with_commands(containers), "initContainers": with_commands(before or {})}
    return made


_COMPUTE_UNTIL_TOLD = f"""
import sys
from dataclasses import replace
from pathlib import Path
from nvshare.demo import job
from nvshare.demo.plan import Started, event_to_line, plan_from_text
plan = plan_from_text(sys.argv[1])
driver = job.Driver()
work = job._Work(driver, plan)
print(event_to_line(Started(driver.device_uuid(plan.ordinal))), flush=True)
work.prepare()
steps = 0
while not Path({_END!r}).exists():
    for steps in range(steps + 1, steps + 9):
        work.step(steps - 1)
    driver.synchronize()
print(event_to_line(job.check(replace(plan, steps=steps), *work.sums_and_elements())), flush=True)
work.end()
"""

_ANSWER_WHEN_ASKED = f"""
import sys, time
from itertools import count
from pathlib import Path
from nvshare.demo.driver import Driver
from nvshare.demo.many import program
from nvshare.demo.many.plan import plan_from_text
from nvshare.demo.plan import Answered, Started, event_to_line
driver = Driver()
service = program._Service(driver, plan_from_text(sys.argv[1]))
print(event_to_line(Started(driver.device_uuid(0))), flush=True)
request = Path({_REQUEST!r})
for number in count(1):
    while not request.exists():
        time.sleep(0.05)
    begin = time.monotonic()
    wrong = service.answer(number)
    request.unlink()
    print(event_to_line(Answered(begin, time.monotonic(), wrong)), flush=True)
"""


def computing(steps: int = ENDLESS_STEPS) -> list[str]:
    """A program that keeps a GPU busy, fills three quarters of it, and checks its result after its last step."""
    return ["python3", "-m", "nvshare.demo.job", _plan(steps)]


def computing_on_each(gpus: int) -> list[str]:
    """The same on each of so many GPUs, by processes of their own."""
    start = "Popen([sys.executable, '-m', 'nvshare.demo.job', plan])"
    program = f"import sys; from subprocess import Popen; [job.wait() for job in [{start} for plan in sys.argv[1:]]]"
    return ["python3", "-c", program, *(_plan(ENDLESS_STEPS, ordinal) for ordinal in range(gpus))]


def computing_until_told() -> list[str]:
    """The same, but its last step is when it is told to end, however long a slow machine takes until then."""
    return ["python3", "-c", _COMPUTE_UNTIL_TOLD, _plan(ENDLESS_STEPS)]


def answering() -> list[str]:
    """A program that fills three quarters of a GPU, and rests until it is asked whether all is as it must be there."""
    plan = many.Plan(seed=1, data_bytes=BLOCKS * BLOCK_BYTES, rests=(), work_ns=STEP_NS)
    return ["python3", "-c", _ANSWER_WHEN_ASKED, many.plan_to_text(plan)]


def ask(name: str) -> dict[str, Any]:
    """What an answering pod says, once it has."""
    before = len(events(name))
    kubectl("exec", "--namespace", TESTS, name, "--", "touch", _REQUEST)
    eventually(f"pod {name} answers", lambda: len(events(name)) > before, 60)
    return events(name)[-1]


def once_told(command: Sequence[str]) -> list[str]:
    """The same program in a pod that does nothing until it is told to begin."""
    return ["sh", "-c", f'until [ -e {_BEGIN} ]; do sleep 0.1; done; exec "$@"', "sh", *command]


def tell_to_begin(name: str) -> None:
    """Its pod waits until told."""
    kubectl("exec", "--namespace", TESTS, name, "--", "touch", _BEGIN)


def tell_to_end(name: str, container: str = "program") -> None:
    """Its pod computes until told; one container hears it for all of a pod."""
    kubectl("exec", "--namespace", TESTS, name, "--container", container, "--", "touch", _END)


def _plan(steps: int, ordinal: int = 0) -> str:
    plan = {
        "name": "e2e",
        "ordinal": ordinal,
        "block_bytes": BLOCK_BYTES,
        "blocks": BLOCKS,
        "steps": steps,
        "step_ns": STEP_NS,
        "seed": 1,
        "stamped": False,
    }
    return json.dumps(plan)


def probing() -> list[str]:
    """A program that prints the GPUs that it sees and ends."""
    return ["python3", "-m", "nvshare.demo.device_list"]


def seen_uuids(name: str) -> list[str]:
    """What a probing pod printed."""
    return [device["uuid"] for device in json.loads(log(name))]


def log(name: str, container: str | None = None) -> str:
    """What the pod's program has said so far; None: it has one container."""
    return kubectl("logs", "--namespace", TESTS, name, *([] if container is None else ["--container", container]))


def events(name: str, container: str | None = None) -> list[dict[str, Any]]:
    """What a computing container has reported so far; lines of others are left out."""
    return [json.loads(line) for line in log(name, container).splitlines() if line.startswith("{")]


def phase(name: str) -> str:
    """Pending, Running, Succeeded or Failed."""
    return str(get("pod", name)["status"]["phase"])


def ended(name: str, timeout: float = 60) -> str:
    """Waits for the pod's end; its phase."""
    eventually(f"pod {name} ends", lambda: phase(name) in {"Succeeded", "Failed"}, timeout)
    return phase(name)


def end_well(names: list[str]) -> None:
    """Each ends with the right result, by itself."""
    assert [ended(name, timeout=120) for name in names] == ["Succeeded"] * len(names), _ends(names)
    assert [events(name)[-1]["right"] for name in names] == [True] * len(names)


def running(name: str, timeout: float = 60) -> Running:
    """Waits until the pod's program has its GPU."""
    eventually(f"pod {name} has its GPU", lambda: _started(name), timeout)
    found = get("pod", name)
    status = found["status"]["containerStatuses"][0]
    return Running(name, found["metadata"]["uid"], status["containerID"], _started(name))


def is_untouched(before: Running) -> bool:
    """Whether the pod still runs in the container that it had."""
    found = get("pod", before.name)
    status = found["status"]["containerStatuses"][0]
    same = (found["metadata"]["uid"], status["containerID"]) == (before.uid, before.container)
    return bool(same and status["restartCount"] == 0 and "running" in status["state"])


def delete(*names: str) -> None:
    """Deletes pods and waits until their processes have ended."""
    kubectl("delete", "pod", "--namespace", TESTS, *names)


def kill(*names: str) -> None:
    """Deletes pods by force: they are gone from the API before their processes have ended."""
    kubectl("delete", "pod", "--namespace", TESTS, "--grace-period=0", "--force", *names)


def kill_all_but(name: str) -> None:
    """Deletes every pod of the tests but one, by force."""
    if others := [each["metadata"]["name"] for each in get("pods")["items"] if each["metadata"]["name"] != name]:
        kill(*others)


def _started(name: str) -> str:
    try:
        return next((event["device"] for event in events(name) if event["event"] == "Started"), "")
    except KubectlError:
        return ""


def _ends(names: list[str]) -> list[Object]:
    return [get("pod", name)["status"]["containerStatuses"][0]["state"] for name in names]
