"""The command where claims can't be served."""

from __future__ import annotations

from collections.abc import Callable

from tests.deviceplugin.process import Node, PluginProcess
from tests.polling import poll_until


def test_without_a_service_account(node: Node, start: Callable[..., PluginProcess]) -> None:
    """It says what is missing and what to do, is not ready, and goes on until it is told to end."""
    with node.scheduler_socket():
        plugin = start("--allocation=dra", "--node-name=worker-1")
        poll_until(lambda: plugin.said("no token of a service account"), "it is said", timeout=30)
        status, text = plugin.get("/readyz")
        assert status == 503
        assert "the chart mounts it where its value allocation" in text
        assert plugin.get("/healthz")[0] == 200
        assert 'nvshare_plugin_problem{kind="kubelet"} 1.0' in plugin.get("/metrics")[1]
        assert plugin.terminate() == 0


def test_overcommitted_virtual_devices(start: Callable[..., PluginProcess]) -> None:
    """They are refused: nobody would be promised that memory."""
    plugin = start("--overcommit=2")
    assert plugin.process.wait(30) == 2
    assert plugin.last_words() == (
        "nvshare-device-plugin: --overcommit: 2 is wrong (only with allocation: dra; virtual devices have no memory "
        "that could be overcommitted); allowed: a number from 1 to 10, and other than 1 only with allocation: dra"
    )
