"""What the plugin tells Prometheus."""

from __future__ import annotations

from prometheus_client import generate_latest

from nvshare.deviceplugin.devices import Offer, Snapshot
from nvshare.deviceplugin.metrics import Metrics


def test_metrics() -> None:
    """Health and count of each GPU, problems, and the process's own figures."""
    metrics = Metrics(int)
    metrics.show(Snapshot((Offer("GPU-a", 10), Offer("GPU-b", 5, "XID 79", withheld=frozenset({4, 5})))))
    metrics.problem("library", True)
    text = generate_latest(metrics.registry).decode()
    assert 'nvshare_plugin_gpu_healthy{gpu="GPU-a"} 1.0' in text
    assert 'nvshare_plugin_gpu_healthy{gpu="GPU-b"} 0.0' in text
    assert 'nvshare_plugin_virtual_devices{gpu="GPU-b"} 5.0' in text
    assert 'nvshare_plugin_withheld_devices{gpu="GPU-a"} 0.0' in text
    assert 'nvshare_plugin_withheld_devices{gpu="GPU-b"} 2.0' in text
    assert 'nvshare_plugin_problem{kind="library"} 1.0' in text
    assert "process_resident_memory_bytes" in text


def test_how_long_claims_take_to_prepare() -> None:
    """The histogram has bounds where it must be told whether they took 20 ms, or 50."""
    metrics = Metrics(int)
    metrics.requests.labels("NodePrepareResources").observe(0.03)
    text = generate_latest(metrics.registry).decode()
    for bound, count in (("0.02", 0), ("0.035", 1), ("0.05", 1)):
        assert f'nvshare_plugin_request_seconds_bucket{{le="{bound}",method="NodePrepareResources"}} {count}.0' in text
