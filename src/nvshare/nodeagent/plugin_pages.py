"""How the node's device plugin is, by kubelet's word of its pod, and by its own pages for probes and metrics.

The plugin's pod has an address of its own, which the watch of the node's pods shows. The pages are there anyway. A
socket in the run directory would be a second way to ask for the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from nvshare.kubernetes.http_client import HttpError, client
from nvshare.nodeagent.pods import PluginPod
from nvshare.nodeagent.readiness import PluginReport
from nvshare.nvml_state import NvmlState

_SECONDS = 3.0


async def report(pods: Iterable[PluginPod]) -> PluginReport | None:
    """Of the plugin that serves, where one takes over from another; None: there is none."""
    serving = sorted(pods, key=lambda pod: not pod.ready)
    if not serving:
        return None
    pod = serving[0]
    if not pod.address or not pod.port:
        return PluginReport(pod.ready, "" if pod.ready else "its pod is not ready", known=False)
    try:
        async with client(pod.address, pod.port, _SECONDS) as asked:
            words, figures = await asked.get("/readyz"), await asked.get("/metrics")
        return _report(words.is_success, words.text, figures.text)
    except (HttpError, ValueError, KeyError) as error:
        # Where a policy keeps the pods of this network apart, kubelet's word is what there is.
        return PluginReport(pod.ready, "" if pod.ready else f"its pod is not ready ({error})", known=False)


def _report(ready: bool, words: str, figures: str) -> PluginReport:
    """ValueError where the figures are none, KeyError where they are others."""
    healthy: dict[str, bool] = {}
    devices: dict[str, int] = {}
    shares: dict[str, int] = {}
    broken = False
    for sample in (sample for family in text_string_to_metric_families(figures) for sample in family.samples):
        match sample.name:
            case "nvshare_plugin_gpu_healthy":
                healthy[sample.labels["gpu"]] = sample.value == 1
            case "nvshare_plugin_virtual_devices":
                devices[sample.labels["gpu"]] = int(sample.value)
            case "nvshare_plugin_claimable_shares":
                shares[sample.labels["gpu"]] = int(sample.value)
            case "nvshare_plugin_nvml_state":
                broken = broken or (sample.value == 1 and NvmlState(sample.labels["state"]).is_broken)
            case _:
                pass
    return PluginReport(
        ready,
        "; ".join(line for line in words.splitlines() if line != "ok"),
        broken,
        sum(healthy.values()),
        len(healthy) - sum(healthy.values()),
        sum(devices[gpu] for gpu, well in healthy.items() if well),
        sum(shares.get(gpu, 0) for gpu, well in healthy.items() if well) if shares else None,
        gpus=frozenset(healthy),
    )
