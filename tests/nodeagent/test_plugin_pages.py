"""What is known of the node's device plugin."""

from __future__ import annotations

import socket

import pytest

from nvshare.nodeagent import plugin_pages
from nvshare.nodeagent.plugin_pages import report
from nvshare.nodeagent.pods import PluginPod
from nvshare.nodeagent.readiness import PluginReport
from tests.nodeagent.conftest import PLUGIN_FIGURES, PluginPages, plugin_serving

BOTH = frozenset({"GPU-a", "GPU-b"})


async def asked(pages: PluginPages) -> PluginReport | None:
    """Of a plugin with these pages, which kubelet says is ready."""
    async with plugin_serving(pages):
        return await report([PluginPod("127.0.0.1", pages.port, True)])


async def test_its_pages() -> None:
    """The figures decide, the words explain."""
    assert await asked(PluginPages()) == PluginReport(True, "", False, 2, 0, 20, gpus=BOTH)
    sick = PluginPages(notes=["GPU-a: lost", "and more"], figures=PLUGIN_FIGURES.format(ok=1, error=0, a=0, b=1))
    assert await asked(sick) == PluginReport(True, "GPU-a: lost; and more", False, 1, 1, 10, gpus=BOTH)
    broken = PluginPages(unready=["no socket"], figures=PLUGIN_FIGURES.format(ok=0, error=1, a=0, b=0))
    assert await asked(broken) == PluginReport(False, "no socket", True, 0, 2, 0, gpus=BOTH)


async def test_its_pages_where_it_serves_claims() -> None:
    """What may be claimed of healthy GPUs counts then; pods that have virtual devices from before take shares away."""
    claimable = 'nvshare_plugin_claimable_shares{gpu="GPU-a"} 10\nnvshare_plugin_claimable_shares{gpu="GPU-b"} 9\n'
    pages = PluginPages(figures=PLUGIN_FIGURES.format(ok=1, error=0, a=0, b=1) + claimable)
    assert await asked(pages) == PluginReport(True, "", False, 1, 1, 10, 9, gpus=BOTH)


@pytest.mark.parametrize(
    "figures",
    [
        'nvshare_plugin_nvml_state{state="new"} 1\n',
        "nvshare_plugin_gpu_healthy 1\n",
        'nvshare_plugin_gpu_healthy{gpu="GPU-a"} 1\n',
        "nvshare_plugin_gpu_healthy{ 1\n",
        "nonsense nonsense nonsense\n",
    ],
)
async def test_pages_of_another_kind(figures: str) -> None:
    """Kubelet's word is what there is."""
    assert await asked(PluginPages(figures=figures)) == PluginReport(True, "", known=False)


async def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at once nor in time: kubelet's word is what there is."""
    monkeypatch.setattr(plugin_pages, "_SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        assert await report([PluginPod("127.0.0.1", port, True)]) == PluginReport(True, "", known=False)
    found = await report([PluginPod("127.0.0.1", port, False)])
    assert found is not None
    assert (found.ready, found.known) == (False, False)
    assert found.words.startswith("its pod is not ready (")


async def test_which_pod() -> None:
    """Of several the one that is ready; one without address or port is known by kubelet's word alone."""
    assert await report([]) is None
    assert await report([PluginPod("", 9403, False)]) == PluginReport(False, "its pod is not ready", known=False)
    assert await report([PluginPod("", 9403, False), PluginPod("127.0.0.1", 0, True)]) == PluginReport(
        True, "", known=False
    )
