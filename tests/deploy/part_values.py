"""What values change that each of the parts has, what lets programs sleep, network policies, and claims."""

from __future__ import annotations

from collections.abc import Iterator

from tests.deploy.chart_values import AGENT, EFFECTS, PLUGIN, POD, SCHEDULER, SETTINGS, TERMS, Effect

_PARTS = {"scheduler": SCHEDULER, "devicePlugin": PLUGIN, "nodeAgent": AGENT}
_POLICY = {"networkPolicy.enabled": True}
_PEER = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}


def _of_the_parts() -> Iterator[Effect]:
    """A part says something else than is said for all; the others stay as they are."""
    for name, part in _PARTS.items():
        pod = f"{part}.{POD}"
        required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]}
        yield Effect(
            f"{name}.priorityClassName",
            "own",
            (
                f"-{pod}.priorityClassName = system-node-critical",
                f"+{pod}.priorityClassName = own",
                "+ResourceQuota/* *values.- = own",
            ),
        )
        yield Effect(
            f"{name}.nodeSelector",
            {"pool": "own"},
            (f"-{pod}.nodeSelector.pool = all", f"+{pod}.nodeSelector.pool = own"),
            {"nodeSelector": {"pool": "all"}},
        )
        yield Effect(
            f"{name}.affinity",
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
            (f"-{pod}.affinity.podAffinity.mine = too", f"+{pod}.{TERMS}.matchExpressions.pool.*"),
            {"affinity": {"podAffinity": {"mine": "too"}}},
        )
        yield Effect(f"{name}.tolerations", [], (f"-{pod}.tolerations.-.operator = Exists",))


PART_EFFECTS: tuple[Effect, ...] = (
    *_of_the_parts(),
    Effect(
        "scheduler.sleep",
        True,
        (
            f"+{SCHEDULER}.*capabilities.add.- = SYS_PTRACE",
            f"+{SCHEDULER}.*capabilities.add.- = DAC_OVERRIDE",
            f"-{SCHEDULER}.*NVIDIA_DRIVER_CAPABILITIES* = utility",
            f"+{SCHEDULER}.*NVIDIA_DRIVER_CAPABILITIES* = utility,compute",
        ),
    ),
    Effect("scheduler.sleepAfter", 60, (f"+{SCHEDULER}.*args.- = --sleep-after=60",), beside={"scheduler.sleep": True}),
    Effect(
        "scheduler.swap.dir",
        "/data/swap",
        (
            f"+{SCHEDULER}.*args.- = --swap-dir=/data/swap",
            f"+{SCHEDULER}.*volumeMounts.swap.*",
            f"+{SCHEDULER}.*volumes.swap.*",
        ),
        beside={"scheduler.sleep": True},
    ),
    Effect(
        "scheduler.swap.size",
        "200Gi",
        (f"+{SCHEDULER}.*args.- = --swap-size=200Gi",),
        beside={"scheduler.sleep": True, "scheduler.swap.dir": "/data/swap"},
    ),
    Effect("networkPolicy.enabled", True, ("+NetworkPolicy/nvshare-* *",)),
    Effect(
        "networkPolicy.metricsFrom",
        [_PEER],
        (
            "+NetworkPolicy/nvshare-* spec.ingress.-.from.-.namespaceSelector.matchLabels.name = monitoring",
            "+NetworkPolicy/nvshare-device-plugin spec.ingress.-.from.-.podSelector.matchLabels.*",
        ),
        _POLICY,
    ),
    Effect(
        "networkPolicy.apiServer",
        [{"to": [{"ipBlock": {"cidr": "192.0.2.1/32"}}], "ports": [{"port": 16443}]}],
        (
            "-NetworkPolicy/nvshare-node-agent spec.egress.-.ports.-.*",
            "+NetworkPolicy/nvshare-node-agent spec.egress.-.to.-.ipBlock.cidr = 192.0.2.1/32",
            "+NetworkPolicy/nvshare-node-agent spec.egress.-.ports.-.port = 16443",
        ),
        _POLICY,
    ),
)
_CLAIMS = (
    Effect(
        "allocation",
        "dra",
        (
            f"+{SETTINGS}.allocation = dra",
            f"-{PLUGIN}.{POD}.automountServiceAccountToken = false",
            f"+{PLUGIN}.{POD}.automountServiceAccountToken = true",
            "+ClusterRole/nvshare-device-plugin *",
            "+ClusterRoleBinding/nvshare-device-plugin *",
            "+ValidatingAdmissionPolicy/nvshare-own-slices *",
            "+ValidatingAdmissionPolicyBinding/nvshare-own-slices *",
            "+DeviceClass/gpu.nvshare.com *",
            "+DeviceClass/mig.nvshare.com *",
        ),
    ),
    Effect("overcommit", 2, (f"+{SETTINGS}.overcommit = 2",), {"allocation": "dra"}),
)
ALL_EFFECTS = (*EFFECTS, *PART_EFFECTS, *_CLAIMS)
