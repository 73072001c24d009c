"""Every value of the chart, with another value than its default and all that this changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SCHEDULER = "DaemonSet/nvshare-scheduler spec"
PLUGIN = "DaemonSet/nvshare-device-plugin spec"
AGENT = "DaemonSet/nvshare-node-agent spec"
EACH = "DaemonSet/* spec"
POD = "template.spec"
SETTINGS = "ConfigMap/nvshare-device-plugin data.config.yaml"
PRESENT = "feature.node.kubernetes.io/pci-10de.present"
TERMS = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.-"

POLICY = "ValidatingAdmissionPolicy/nvshare-own-node spec.matchConditions"
# By default the node agent is where a GPU was found, in whatever way, and where nobody has looked for one.
UNKNOWN = tuple(
    f"-{AGENT}.{POD}.{TERMS}.matchExpressions.{label}"
    for label in (
        "feature.node.kubernetes.io/pci-030[02]_10de.present.*",
        "feature.node.kubernetes.io/kernel-version.major.*",
        "nvidia.com/gpu.present.operator = DoesNotExist",
    )
)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a value does."""

    path: str
    value: object
    changes: tuple[str, ...]
    """Patterns (fnmatch) of the lines that come (``+``) and go (``-``): each has some, and no other line changes."""
    beside: Mapping[str, object] = field(default_factory=dict)
    """Values that are set before and after: those without which this one means nothing."""


def _setting(path: str, value: object, key: str, shown: object) -> Effect:
    return Effect(path, value, (f"+{SETTINGS}.{key} = {shown}",))


def _number(part: str, container: str, kind: str, before: str) -> tuple[Effect, ...]:
    path = f"{POD}.containers.{container}.resources.{kind}"
    line = f"DaemonSet/nvshare-{container} spec.{path}"
    name = {"scheduler": "scheduler", "device-plugin": "devicePlugin", "node-agent": "nodeAgent"}[container]
    value = "7" if kind == "requests" else "7Gi"
    return (
        Effect(f"{name}.resources.{kind}.{part}", value, (f"-{line}.{part} = {before}", f"+{line}.{part} = {value}")),
    )


def _extra_env(part: str, container: str) -> Effect:
    variable = {"name": "TZ", "value": "UTC"}
    line = f"+DaemonSet/nvshare-{container} spec.{POD}.containers.{container}.env.TZ"
    return Effect(f"{part}.extraEnv", [variable], (f"{line}.name = TZ", f"{line}.value = UTC"))


def _image(path: str, value: object, image: str) -> Effect:
    line = f"{EACH}.{POD}.containers.*.image"
    return Effect(path, value, (f"-{line} = docker.io/nvshare/nvshare:*", f"+{line} = {image}"))


def _folder(path: str, before: str, after: str, *others: str) -> Effect:
    """A folder of the node: in arguments, mounts and volumes."""
    changes = [
        f"{sign}{EACH}.{POD}.{where}*{folder}*" for sign, folder in (("-", before), ("+", after)) for where in others
    ]
    return Effect(path, after, tuple(changes))


_DIGEST = "sha256:" + "01234567" * 8
_GRAFANA = "ConfigMap/nvshare-dashboard"

EFFECTS: tuple[Effect, ...] = (
    _image("global.imageRegistry", "registry.example:5000", "registry.example:5000/nvshare/nvshare:*"),
    Effect(
        "global.imagePullSecrets",
        [{"name": "ours"}],
        tuple(f"+{part}.{POD}.imagePullSecrets.ours.name = ours" for part in (SCHEDULER, PLUGIN, AGENT)),
        {"imagePullSecrets": [{"name": "mine"}]},
    ),
    _image("image.registry", "registry.example:5000", "registry.example:5000/nvshare/nvshare:*"),
    _image("image.repository", "mirror/nvshare", "docker.io/mirror/nvshare:*"),
    _image("image.tag", "next", "docker.io/nvshare/nvshare:next"),
    _image("image.digest", _DIGEST, f"docker.io/nvshare/nvshare:*@{_DIGEST}"),
    Effect(
        "image.pullPolicy",
        "Always",
        (f"-{EACH}.{POD}.*.imagePullPolicy = IfNotPresent", f"+{EACH}.{POD}.*.imagePullPolicy = Always"),
    ),
    Effect(
        "imagePullSecrets",
        [{"name": "mine"}],
        tuple(f"+{part}.{POD}.imagePullSecrets.mine.name = mine" for part in (SCHEDULER, PLUGIN, AGENT)),
    ),
    Effect("nameOverride", "other", ("+*/nvshare-other-* *", "-*/nvshare-* *")),
    Effect("fullnameOverride", "own", ("+*/own-* *", "-*/nvshare-* *")),
    Effect(
        "namespaceOverride",
        "gpus",
        (
            "-*namespace = nvshare-system",
            "+*namespace = gpus",
            f"-{POLICY}.is-the-node-agent.expression = *'system:serviceaccount:nvshare-system:nvshare-node-agent'",
            f"+{POLICY}.is-the-node-agent.expression = *'system:serviceaccount:gpus:nvshare-node-agent'",
        ),
    ),
    Effect("namespace.create", True, ("+Namespace/nvshare-system *",)),
    Effect(
        "priorityClassName",
        "gpu-parts",
        (
            "-ResourceQuota/* *values.- = system-node-critical",
            "+ResourceQuota/* *values.- = gpu-parts",
            f"-{EACH}.{POD}.priorityClassName = system-node-critical",
            f"+{EACH}.{POD}.priorityClassName = gpu-parts",
        ),
    ),
    Effect("resourceQuota.enabled", False, ("-ResourceQuota/* *",)),
    Effect(
        "runtimeClassName",
        "nvidia",
        tuple(f"+{part}.{POD}.runtimeClassName = nvidia" for part in (SCHEDULER, PLUGIN)),
    ),
    Effect("nodeSelector", {"pool": "gpu"}, (f"+{EACH}.{POD}.nodeSelector.pool = gpu",)),
    Effect(
        "affinity",
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
            },
            "podAntiAffinity": {"mine": "too"},
        },
        (
            f"+{EACH}.{POD}.{TERMS}.matchExpressions.pool.*",
            f"+{EACH}.{POD}.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution.-.weight = 1",
            f"+{EACH}.{POD}.affinity.podAntiAffinity.mine = too",
        ),
    ),
    Effect(
        "nfdAffinity",
        True,
        tuple(
            f"+{EACH}.{POD}.{TERMS}.matchExpressions.{label}.*"
            for label in (PRESENT, "feature.node.kubernetes.io/cpu-model.vendor_id", "nvidia.com/gpu.present")
        )
        + UNKNOWN,
    ),
    Effect(
        "tolerations",
        [{"key": "gpu", "operator": "Exists"}],
        (f"+{EACH}.{POD}.tolerations.gpu.*", f"-{EACH}.{POD}.tolerations.-.operator = Exists"),
    ),
    Effect(
        "updateStrategy.type",
        "OnDelete",
        (
            f"-{EACH}.updateStrategy.type = RollingUpdate",
            f"+{EACH}.updateStrategy.type = OnDelete",
            f"-{EACH}.updateStrategy.rollingUpdate.*",
        ),
    ),
    Effect(
        "updateStrategy.rollingUpdate.maxUnavailable",
        "10%",
        tuple(
            f"{sign}{part}.updateStrategy.rollingUpdate.{limit} = {value}"
            for part, limit in ((SCHEDULER, "maxUnavailable"), (AGENT, "maxUnavailable"), (PLUGIN, "maxSurge"))
            for sign, value in (("-", 1), ("+", "10%"))
        ),
    ),
    Effect("podAnnotations", {"a": "b"}, (f"+{EACH}.template.metadata.annotations.a = b",)),
    Effect("podLabels", {"a": "b"}, (f"+{EACH}.template.metadata.labels.a = b",)),
    Effect(
        "podSecurityContext.seccompProfile.type",
        "Unconfined",
        (
            f"-{EACH}.{POD}.securityContext.seccompProfile.type = RuntimeDefault",
            f"+{EACH}.{POD}.securityContext.seccompProfile.type = Unconfined",
        ),
    ),
    Effect("seLinuxOptions", {"type": "spc_t"}, (f"+{EACH}.{POD}.securityContext.seLinuxOptions.type = spc_t",)),
    *(
        Effect(
            f"securityContext.{key}",
            after,
            (
                f"-{EACH}.{POD}.containers.*.securityContext.{line} = {shown}",
                f"+{EACH}.{POD}.containers.*.securityContext.{line} = {now}",
            ),
        )
        for key, after, line, shown, now in (
            ("runAsUser", 1, "runAsUser", 0, 1),
            ("allowPrivilegeEscalation", True, "allowPrivilegeEscalation", "false", "true"),
            ("readOnlyRootFilesystem", False, "readOnlyRootFilesystem", "true", "false"),
            ("capabilities.drop", ["NET_RAW"], "capabilities.drop.-", "ALL", "NET_RAW"),
        )
    ),
    Effect("serviceAccount.create", False, ("-ServiceAccount/mine *",), {"serviceAccount.name": "mine"}),
    Effect(
        "serviceAccount.name",
        "mine",
        (
            "-ServiceAccount/nvshare-* *",
            "+ServiceAccount/mine *",
            f"-{EACH}.{POD}.serviceAccountName = nvshare-*",
            f"+{EACH}.{POD}.serviceAccountName = mine",
            "-ClusterRoleBinding/* subjects.nvshare-node-agent.*",
            "+ClusterRoleBinding/* subjects.mine.*",
            f"-{POLICY}.is-the-node-agent.expression = *:nvshare-node-agent'",
            f"+{POLICY}.is-the-node-agent.expression = *:mine'",
        ),
    ),
    Effect("serviceAccount.annotations", {"a": "b"}, ("+ServiceAccount/* metadata.annotations.a = b",)),
    Effect(
        "config.name",
        "mine",
        (
            "-ConfigMap/* *",
            f"-{PLUGIN}.template.metadata.annotations.checksum/config = *",
            f"-{PLUGIN}.*args.- = --config=/etc/nvshare/config.yaml",
            f"+{PLUGIN}.*args.- = --config-dir=/etc/nvshare",
            f"+{PLUGIN}.*args.- = --config-default=config",
            f"-{PLUGIN}.*volumes.config.configMap.name = nvshare-device-plugin",
            f"+{PLUGIN}.*volumes.config.configMap.name = mine",
        ),
    ),
    Effect(
        "config.map",
        {"notebooks": "virtual_devices: 20\nmemory: native\n"},
        (
            "+ConfigMap/* data.notebooks.yaml.virtual_devices = 20",
            "+ConfigMap/* data.notebooks.yaml.memory = native",
            "+ConfigMap/* data.notebooks.yaml.resource_name = a.example/gpu",
            "+ConfigMap/* data.notebooks.yaml.log_format = json",
            f"-{PLUGIN}.*args.- = --config=/etc/nvshare/config.yaml",
            f"+{PLUGIN}.*args.- = --config-dir=/etc/nvshare",
            f"+{PLUGIN}.*args.- = --config-default=config",
        ),
        {"resourceName": "a.example/gpu"},
    ),
    Effect(
        "config.default",
        "notebooks",
        (f"-{PLUGIN}.*args.- = --config-default=config", f"+{PLUGIN}.*args.- = --config-default=notebooks"),
        {"config.map": {"notebooks": "virtual_devices: 20"}},
    ),
    _setting("resourceName", "a.example/gpu", "resource_name", "a.example/gpu"),
    Effect("virtualDevices", 4, (f"-{SETTINGS}.virtual_devices = 10", f"+{SETTINGS}.virtual_devices = 4")),
    _setting("allocationPolicy", "packed", "allocation_policy", "packed"),
    _setting("numaHints", True, "numa_hints", "true"),
    _setting("migStrategy", "mixed", "mig_strategy", "mixed"),
    _setting("failRequestsGreaterThanOne", True, "fail_requests_greater_than_one", "true"),
    _setting("deviceListStrategy", "volume-mounts", "device_list_strategy.-", "volume-mounts"),
    _setting("cdi.kind", "a.example/gpu", "cdi_kind", "a.example/gpu"),
    _setting("cdi.ownKind", "a.example/part", "cdi_own_kind", "a.example/part"),
    _setting("cdi.annotationPrefix", "a.example/", "cdi_annotation_prefix", "a.example/"),
    Effect(
        "cdi.specDir",
        "/etc/cdi",
        (
            f"+{PLUGIN}.*args.- = --cdi-spec-dir=/etc/cdi",
            f"-{PLUGIN}.*.cdi.*/var/run/cdi",
            f"+{PLUGIN}.*.cdi.*/etc/cdi",
        ),
    ),
    Effect(
        "compatWithCPUManager",
        True,
        (
            f"+{SETTINGS}.compat_with_cpu_manager = true",
            f"+{PLUGIN}.{POD}.containers.*.securityContext.privileged = true",
            f"-{PLUGIN}.{POD}.containers.*.securityContext.*",
        ),
    ),
    _setting("nvidiaDriverRoot", "/run/nvidia/driver", "nvidia_dev_root", "/run/nvidia/driver"),
    Effect(
        "failOnInitError",
        False,
        (
            f"+{SETTINGS}.fail_on_init_error = false",
            f"-{SCHEDULER}.*args.- = --fail-on-init-error=auto",
            f"+{SCHEDULER}.*args.- = --fail-on-init-error=false",
        ),
    ),
    _folder("kubeletDir", "/var/lib/kubelet", "/k/kubelet", "containers.*args", "containers.*mountPath", "volumes."),
    _folder("libraryDir", "/var/lib/nvshare", "/opt/nvshare", "containers.*args", "containers.*mountPath", "volumes."),
    _folder("runDir", "/var/run/nvshare", "/run/own", "containers.*args", "containers.*mountPath", "volumes."),
    Effect(
        "hostMemory",
        "1.5TiB",
        (
            f"-{SCHEDULER}.*args.- = --host-memory=16GiB",
            f"+{SCHEDULER}.*args.- = --host-memory=1.5TiB",
            f"-{SCHEDULER}.*limits.memory = 16784Mi",
            f"+{SCHEDULER}.*limits.memory = 1573264Mi",
        ),
    ),
    Effect("scheduler.quantum", 0.5, (f"+{SCHEDULER}.*args.- = --quantum=0.5",)),
    Effect("scheduler.longestTurn", 2.5, (f"+{SCHEDULER}.*args.- = --longest-turn=2.5",)),
    Effect("scheduler.policy", "exclusive", (f"+{SCHEDULER}.*args.- = --policy=exclusive",)),
    Effect(
        "scheduler.unresponsive",
        "kill",
        (f"+{SCHEDULER}.*args.- = --unresponsive=kill", f"+{SCHEDULER}.*capabilities.add.- = KILL"),
    ),
    Effect("scheduler.grace", 5, (f"+{SCHEDULER}.*args.- = --grace=5",)),
    Effect("scheduler.floor", 0, (f"+{SCHEDULER}.*args.- = --floor=0",)),
    Effect("scheduler.burst", 0, (f"+{SCHEDULER}.*args.- = --burst=0",)),
    Effect("scheduler.reserve", "1Gi", (f"+{SCHEDULER}.*args.- = --reserve=1Gi",)),
    Effect("scheduler.extraArgs", ["--floor=0.1"], (f"+{SCHEDULER}.*args.- = --floor=0.1",)),
    _extra_env("scheduler", "scheduler"),
    _extra_env("devicePlugin", "device-plugin"),
    _extra_env("nodeAgent", "node-agent"),
    *_number("cpu", "scheduler", "requests", "20m"),
    *_number("memory", "scheduler", "requests", "80Mi"),
    Effect(
        "scheduler.resources.limits",
        {"memory": "17Gi"},
        (f"-{SCHEDULER}.*limits.memory = 16784Mi", f"+{SCHEDULER}.*limits.memory = 17Gi"),
    ),
    *_number("cpu", "device-plugin", "requests", "20m"),
    *_number("memory", "device-plugin", "requests", "80Mi"),
    *_number("memory", "device-plugin", "limits", "200Mi"),
    *_number("cpu", "node-agent", "requests", "10m"),
    *_number("memory", "node-agent", "requests", "80Mi"),
    *_number("memory", "node-agent", "limits", "200Mi"),
    Effect(
        "nodeAgent.enabled",
        False,
        ("-*/nvshare-node-agent *", "-*/nvshare-own-node *", f"-{SCHEDULER}.*args.- = --await-annotations=60"),
    ),
    Effect(
        "metrics.enabled",
        False,
        (
            f"-{EACH}.*args.- = --metrics-address=0.0.0.0:940*",
            f"+{EACH}.*args.- = --metrics-address=127.0.0.1:940*",
            f"-{EACH}.*ports.metrics.*",
            f"-{EACH}.*Probe.httpGet.*",
            f"+{EACH}.*Probe.exec.*",
            f"+{EACH}.*startupProbe.timeoutSeconds = 5",
        ),
    ),
    Effect(
        "metrics.port",
        7000,
        tuple(
            f"{sign}{part}.{POD}.{where}"
            for place, part in enumerate((SCHEDULER, PLUGIN, AGENT))
            for sign, port in (("-", 9402 + place), ("+", 7000 + place))
            for where in (f"*ports.metrics.containerPort = {port}", f"*args.- = --metrics-address=0.0.0.0:{port}")
        ),
    ),
    Effect(
        "metrics.labels",
        {"release": "prometheus"},
        tuple(f"+{kind}/nvshare metadata.labels.release = prometheus" for kind in ("PodMonitor", "PrometheusRule")),
        {"metrics.podMonitor.enabled": True, "metrics.alerts.enabled": True},
    ),
    Effect("metrics.podMonitor.enabled", True, ("+PodMonitor/nvshare *",)),
    Effect("metrics.alerts.enabled", True, ("+PrometheusRule/nvshare *",)),
    Effect("metrics.dashboard.enabled", True, (f"+{_GRAFANA} *",)),
    Effect(
        "simulated.enabled",
        True,
        (
            f"+{SETTINGS}.extra_*",
            *(f"+{part}.{POD}.initContainers.install-simulated-driver.*" for part in (SCHEDULER, PLUGIN)),
            *(f"+{part}.{POD}.containers.*.env.*" for part in (SCHEDULER, PLUGIN)),
            *(f"+{part}.{POD}.containers.*.volumeMounts.*" for part in (SCHEDULER, PLUGIN)),
            *(f"+{part}.{POD}.volumes.*" for part in (SCHEDULER, PLUGIN)),
            f"-{SCHEDULER}.*args.- = --host-memory=16GiB",
            *(f"+{SCHEDULER}.*args.- = --{each}" for each in ("host-memory=6GiB", "quantum=2", "reserve=32MiB")),
            f"-{SCHEDULER}.*limits.memory = 16784Mi",
            f"+{SCHEDULER}.*limits.memory = 6544Mi",
            *UNKNOWN,
            f"-{AGENT}.{POD}.{TERMS}.matchExpressions.{PRESENT}.*",
            f"-{AGENT}.{POD}.{TERMS}.matchExpressions.feature.node.kubernetes.io/cpu-model.vendor_id.*",
            f"-{AGENT}.{POD}.{TERMS}.matchExpressions.nvidia.com/gpu.present.*",
        ),
    ),
    Effect(
        "simulated.devices",
        "1x4GiB/64MiB",
        tuple(
            f"{sign}{EACH}.{POD}.*ontainers.*.env.NVSHARE_SIMGPU_DEVICES.value = {value}"
            for sign, value in (("-", "2x1GiB/32MiB"), ("+", "1x4GiB/64MiB"))
        ),
        {"simulated.enabled": True},
    ),
)
