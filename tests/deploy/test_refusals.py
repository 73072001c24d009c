"""What the chart refuses, and what it takes where Kubernetes takes it: without a cluster."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from nvshare.scheduler.arenas.limits import MARGIN_BYTES
from nvshare.sizes import size_of
from tests.deploy.rendering import CHART, RENDER, helm_template, rendered

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
GIB = 1 << 30


@pytest.fixture
def helm(tool: Callable[[str], str]) -> str:
    """The helm that ``make helm`` builds."""
    return tool(RENDER["find_helm"]() or "helm")


def everything(value: object, path: str = "") -> Iterator[str]:
    """The path of every value, and of every mapping of values."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from everything(inner, f"{path}.{key}" if path else key)


def scheduler_of(helm: str, values: dict[str, object]) -> tuple[str, str]:
    """The size that its option has, and its memory limit."""
    (found,) = (
        each
        for each in rendered(helm, values)
        if each["metadata"]["name"] == "nvshare-scheduler" and each["kind"] == "DaemonSet"
    )
    (container,) = found["spec"]["template"]["spec"]["containers"]
    (option,) = (each for each in container["args"] if each.startswith("--host-memory="))
    return option.partition("=")[2], container["resources"]["limits"]["memory"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"virtualDevice": 4}, "additional properties 'virtualDevice' not allowed"),
        ({"scheduler.policies": "auto"}, "at '/scheduler': additional properties 'policies' not allowed"),
        ({"scheduler.policy": "fair"}, "at '/scheduler/policy': value must be one of 'auto', 'exclusive', 'off'"),
        ({"resourceName": "a..b/gpu"}, "at '/resourceName'"),
        ({"resourceName": "node.kubernetes.io/gpu"}, "kubelet refuses domains that end in kubernetes.io"),
        ({"resourceName": "requests.a.example/gpu"}, "or begin with requests."),
        ({"resourceName": f"{'a.' * 122}a/gpu"}, "resourceName: its domain has more than 244 characters"),
        ({"scheduler.quantum": 0}, "scheduler.quantum: 0 is not allowed: a number from 0.01 to 86400 is"),
        ({"scheduler.quantum": "half"}, "scheduler.quantum: half is not allowed: a number from 0.01 to 86400 is"),
        ({"scheduler.longestTurn": 0.5}, "scheduler.longestTurn: 0.5 is not allowed: a number from 1 to 1000 is"),
        ({"scheduler.grace": "0.05"}, "scheduler.grace: 0.05 is not allowed: a number from 0.1 to 86400 is"),
        ({"scheduler.floor": "0.6"}, "scheduler.floor: 0.6 is not allowed: a number from 0 to 0.5 is"),
        ({"scheduler.burst": "-1"}, "scheduler.burst: -1 is not allowed: a number from 0 to 86400 is"),
        ({"scheduler.burst": True}, "at '/scheduler/burst': got boolean, want null or number or string"),
        (
            {"scheduler.sleepAfter": 1e6, "scheduler.sleep": True},
            "scheduler.sleepAfter: 1000000 is not allowed: a number from 0.1 to 86400 is",
        ),
        ({"scheduler.resources.limit": {}}, "additional properties 'limit' not allowed"),
        ({"virtualDevices": 1001}, "at '/virtualDevices': maximum: got 1,001, want 1,000"),
        ({"virtualDevices": "4"}, "at '/virtualDevices': got string, want integer"),
        ({"image.digest": "1234"}, "at '/image/digest': '1234' does not match pattern"),
        ({"image.pullPolicy": "Sometimes"}, "value must be one of 'Always', 'IfNotPresent', 'Never'"),
        ({"kubeletDir": "kubelet"}, "at '/kubeletDir': 'kubelet' does not match pattern"),
        ({"kubeletDir": "/" + 51 * "k"}, "at '/kubeletDir': maxLength: got 52, want 51"),
        ({"runDir": "/" + 85 * "r"}, "at '/runDir': maxLength: got 86, want 85"),
        ({"runDir": "/var/../run"}, "at '/runDir': '/var/../run' does not match pattern"),
        ({"deviceListStrategy": "cdi"}, "value must be one of 'envvar', 'volume-mounts', 'cdi-annotations', 'cdi-cri'"),
        ({"metrics.port": 65534}, "at '/metrics/port': maximum: got 65,534, want 65,533"),
        ({"updateStrategy.rollingUpdate.maxUnavailable": 0}, "minimum: got 0, want 1"),
        ({"simulated.devices": "2x1g"}, '"2x1g" is not understood; it is [NUMBERx][NAME:]MEMORY[/CONTEXT'),
        ({"hostMemory": "16g"}, 'hostMemory: "16g" is no size; 16Gi or 16GiB (powers of 1024), 16G or 16GB (powers of'),
        ({"hostMemory": "half"}, "a share of what a node has free is written 50%"),
        ({"hostMemory": "101%"}, "hostMemory: 101% is more than all of what a node has free"),
        ({"hostMemory": 8}, 'hostMemory: "8" is 8 bytes, which is too little to be meant'),
        ({"hostMemory": "1025Ti"}, 'hostMemory: "1025Ti" is more than any machine has'),
        ({"hostMemory": -1}, 'hostMemory: "-1" is no size'),
        ({"scheduler.reserve": "1Ki"}, 'scheduler.reserve: "1Ki" is 1024 bytes, which is too little to be meant'),
        ({"scheduler.resources.limits": {"memory": "4Gi"}}, "4Gi is too little for hostMemory, 16GiB"),
        ({"scheduler.resources.limits": {"memory": "4G"}, "hostMemory": "4G"}, "4G is too little for hostMemory"),
        ({"scheduler.resources.requests.memory": "20Gi"}, "requests.memory: 20Gi is more than limits.memory, 16784Mi"),
        ({"devicePlugin.resources.requests.memory": "1G"}, "requests.memory: 1G is more than limits.memory, 200Mi"),
        ({"nodeAgent.resources.limits.memory": "some"}, "at '/nodeAgent/resources/limits/memory'"),
        ({"scheduler.sleepAfter": 60}, "without scheduler.sleep=true the scheduler may put no program to sleep"),
        ({"scheduler.swap.dir": "/x"}, "without scheduler.sleep=true the scheduler may put no program to sleep"),
        ({"scheduler.swap.size": "1Gi"}, "scheduler.swap.size: it says how much may be in scheduler.swap.dir"),
        (
            {"scheduler.swap": {"dir": "/x", "size": 0}, "scheduler.sleep": True},
            "scheduler.swap.size: 0 is not allowed; without scheduler.swap.dir nothing goes to a disk",
        ),
        (
            {"scheduler.swap.dir": "/var/lib/nvshare", "scheduler.sleep": True},
            "/var/lib/nvshare is libraryDir's already",
        ),
        ({"scheduler.swap.dir": "/etc"}, "at '/scheduler/swap/dir': 'not' failed"),
        ({"scheduler.extraArgs": ["--sleep-after=5"]}, "--sleep-after=5 is said by the value scheduler.sleepAfter:"),
        (
            {"scheduler.extraArgs": ["--host-memory=3GiB"]},
            "--host-memory=3GiB is said by the value hostMemory: the",
        ),
        ({"scheduler.extraArgs": ["--exit-when-idle=5"]}, "the pod would be started anew whenever no program uses a"),
        ({"scheduler.extraArgs": ["--quantum", 5]}, '"--quantum" is not allowed: each is one text, --OPTION=VALUE'),
        ({"scheduler.extraArgs": [5]}, '"5" is not allowed: each is one text, --OPTION=VALUE'),
        (
            {"scheduler.extraArgs": ["--await-annotations=9"], "nodeAgent.enabled": False},
            "--await-annotations=9 needs nodeAgent.enabled=true",
        ),
        (
            {"podLabels": {"app.kubernetes.io/name": "x"}},
            "invalid propertyName 'app.kubernetes.io/name'",
        ),
        ({"podAnnotations": {"checksum/config": "x"}}, "invalid propertyName 'checksum/config'"),
        (
            {"nodeAgent.extraEnv": [{"name": "NODE_NAME", "value": "x"}]},
            "at '/nodeAgent/extraEnv/0/name': 'not' failed",
        ),
        ({"tolerations": [{"keys": "x"}]}, "at '/tolerations/0': additional properties 'keys' not allowed"),
        ({"securityContext.privileged": True}, "needs allowPrivilegeEscalation: true"),
        ({"securityContext.capabilities.add": ["SYS_ADMIN"]}, "needs allowPrivilegeEscalation: true"),
        ({"securityContext.runAsNonRoot": True}, "kubelet would not start such a container"),
        ({"podSecurityContext.runAsNonRoot": True}, "kubelet would not start such a container"),
        ({"runDir": "/var/lib/nvshare"}, "runDir: /var/lib/nvshare is libraryDir's already"),
        ({"runDir": "/run/x", "libraryDir": "/var/run/x"}, "runDir: /run/x is libraryDir's already"),
        ({"cdi.specDir": "/var/run/nvshare"}, "runDir: /var/run/nvshare is cdi.specDir's already"),
        ({"runDir": "/k/pod-resources", "kubeletDir": "/k"}, "runDir: /k/pod-resources is kubelet's already"),
        ({"libraryDir": "/etc/nvshare"}, "libraryDir: /etc/nvshare is for the settings already"),
        ({"libraryDir": "/usr/lib"}, "at '/libraryDir': 'not' failed"),
        ({"runDir": "/var/run"}, "at '/runDir': 'not' failed"),
        ({"cdi.ownKind": "nvidia.com/own"}, "at '/cdi/ownKind': 'not' failed"),
        ({"cdi.kind": "nvshare.com/gpu"}, 'cdi.kind: "nvshare.com/gpu" is cdi.ownKind as well'),
        ({"networkPolicy": {"enabled": True, "apiServer": None}}, "at '/networkPolicy': missing property 'apiServer'"),
        ({"global.imageRegistry": "https://x"}, "at '/global/imageRegistry'"),
        ({"image.registry": "https://registry.example"}, "at '/image/registry': 'https://registry.example' does not"),
        ({"config.default": "big"}, 'config.default: "big" is not in config.map; there are: config'),
        ({"config.map": {"big": "- 1"}}, "config.map.big is not a mapping in YAML"),
        ({"config.map": {"config": "a: 1"}}, "config.map.config: that is the name of what the other values say"),
        ({"config.map": {"big": "a: 1"}, "config.name": "x"}, "config.name and config.map exclude each other"),
        ({"allocation": "claims"}, "at '/allocation': value must be one of 'plugin', 'dra'"),
        ({"allocation": "dra", "nodeAgent.enabled": False}, "allocation: dra needs nodeAgent.enabled=true"),
        ({"overcommit": 2}, "overcommit: without allocation: dra no memory is promised"),
        (
            {"allocation": "dra", "kubeletDir": "/k", "runDir": "/k/plugins_registry"},
            "runDir: /k/plugins_registry is kubelet's already",
        ),
        ({"allocation": "dra", "overcommit": 0.5}, "overcommit: 0.5 is not allowed: a number from 1 to 10 is"),
        ({"allocation": "dra", "overcommit": "11"}, "overcommit: 11 is not allowed: a number from 1 to 10 is"),
        ({"serviceAccount.create": False}, "serviceAccount.name must name an account that is there"),
        ({"metrics.enabled": False, "metrics.podMonitor.enabled": True}, "then nothing can be scraped"),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused(helm: str, values: dict[str, object], message: str) -> None:
    """With a message that names it and says what is allowed."""
    done = helm_template(helm, values)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("path", list(everything(VALUES)))
def test_null_is_a_value(helm: str, path: str) -> None:
    """It leaves out what can be left out, and is refused where something must be said: no template breaks of it."""
    done = helm_template(helm, {path: None})
    if done.returncode:
        name = path.rpartition(".")[2]
        assert re.search(rf"missing propert(y|ies) .*'{name}'|at '/{path.replace('.', '/')}': |{path} is", done.stderr)
        assert not re.search("nil pointer|error calling|wrong type|can't evaluate|YAML parse", done.stderr), done.stderr
        return
    for each in yaml.safe_load_all(done.stdout):
        if each and each["kind"] == "DaemonSet":
            assert "<nil>" not in str(each)
            assert {"name", "image"} <= each["spec"]["template"]["spec"]["containers"][0].keys()


@pytest.mark.parametrize(
    ("size", "size_bytes"),
    [
        ("16Gi", 16 * GIB),
        ("16GiB", 16 * GIB),
        ("16G", 16 * 10**9),
        ("16GB", 16 * 10**9),
        ("16 GiB", 16 * GIB),
        ("1.5Gi", 3 * GIB // 2),
        ("1.234GB", 1234 * 10**6),
        ("1Ti", 1024 * GIB),
        ("4000000k", 4 * 10**9),
        ("4194304Ki", 4 * GIB),
        ("17179869184", 16 * GIB),
        (17179869184, 16 * GIB),
    ],
)
def test_sizes_are_what_kubernetes_takes(helm: str, size: object, size_bytes: int) -> None:
    """Each means to the scheduler what it means to Kubernetes, and its limit pays for it."""
    option, limit = scheduler_of(helm, {"hostMemory": size})
    assert size_of(option) == size_bytes
    assert limit.endswith("Mi")
    assert 0 <= (int(limit[:-2]) << 20) - size_bytes - (400 << 20) < 2 << 20


@pytest.mark.parametrize("limit", ["17Gi", "17179869184", 18253611008, "18253.7M", "0.02T"])
def test_a_limit_that_suffices(helm: str, limit: object) -> None:
    """It is taken as it is, and with less than the scheduler needs beside the memory it is refused."""
    host_memory = "15.5GiB"
    assert scheduler_of(helm, {"hostMemory": host_memory, "scheduler.resources.limits": {"memory": limit}})[1] == limit


def test_the_least_limit_is_the_schedulers(helm: str) -> None:
    """With less it would not start, as its own message says."""
    least = (16 * GIB + MARGIN_BYTES) >> 20
    limits = "scheduler.resources.limits"
    assert scheduler_of(helm, {limits: {"memory": f"{least}Mi"}})[1] == f"{least}Mi"
    assert helm_template(helm, {limits: {"memory": f"{least - 1}Mi"}}).returncode != 0


def test_no_priority_is_a_choice(helm: str) -> None:
    """Then there is no quota either, which is for classes."""
    found = rendered(helm, {"priorityClassName": ""})
    assert "priorityClassName" not in str(found)
    assert "ResourceQuota" not in {each["kind"] for each in found}


def test_values_of_the_former_chart_suffice(helm: str, tmp_path: Path) -> None:
    """``helm upgrade --reuse-values`` knows nothing of what is new since 0.2.0: then it is as its default says."""
    chart = tmp_path / "nvshare"
    shutil.copytree(CHART, chart)
    former = {key: value for key, value in VALUES.items() if key not in ("global", "networkPolicy")}
    own = ("priorityClassName", "nodeSelector", "affinity", "tolerations")
    own += ("grace", "floor", "burst", "reserve", "sleep", "sleepAfter", "swap")
    for part in ("scheduler", "devicePlugin", "nodeAgent"):
        former[part] = {key: value for key, value in former[part].items() if key not in own}
    (chart / "values.yaml").write_text(yaml.safe_dump(former))
    assert rendered(helm, chart=chart) == rendered(helm)
