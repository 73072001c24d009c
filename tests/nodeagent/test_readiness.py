"""What is said of a node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.nodeagent.readiness import PluginReport, Reason, Steady, Verdict, verdict

WELL = PluginReport(True, "", False, 2, 0, 20)
READY = Verdict(True, Reason.READY, "2 GPUs, 20 virtual devices")
AWAY = Verdict(False, Reason.SCHEDULER_AWAY, "away")
OTHER = Verdict(False, Reason.NO_GPU, "none")


@pytest.mark.parametrize(
    ("scheduler", "plugin", "said"),
    [
        ("", WELL, READY),
        ("", PluginReport(True, "", False, 1, 0, 1), Verdict(True, Reason.READY, "1 GPU, 1 virtual device")),
        ("", PluginReport(True, "", False, 2, 0, 20, 19), Verdict(True, Reason.READY, "2 GPUs, 19 shares")),
        (
            "no socket",
            WELL,
            Verdict(False, Reason.SCHEDULER_AWAY, "nvshare-scheduler does not answer: no socket"),
        ),
        ("", None, Verdict(False, Reason.PLUGIN_AWAY, "no pod of nvshare-device-plugin is on this node")),
        ("", PluginReport(False, "no kubelet", False, 2, 0, 20), Verdict(False, Reason.PLUGIN_NOT_READY, "no kubelet")),
        ("", PluginReport(True, "update", True, 0, 2), Verdict(False, Reason.NVML_BROKEN, "update")),
        ("", PluginReport(False, "silent", True), Verdict(False, Reason.NVML_BROKEN, "silent")),
        (
            "",
            PluginReport(True, "a: lost", True, 1, 1, 10),
            Verdict(True, Reason.READY, "1 GPU, 10 virtual devices; a: lost"),
        ),
        ("", PluginReport(True, "a: lost", False, 0, 1), Verdict(False, Reason.GPUS_UNHEALTHY, "a: lost")),
        ("", PluginReport(True), Verdict(False, Reason.NO_GPU, "the node has no GPU to share")),
        ("", PluginReport(True, known=False), Verdict(True, Reason.READY, "nvshare-device-plugin is ready")),
        ("", PluginReport(False, "probe", known=False), Verdict(False, Reason.PLUGIN_NOT_READY, "probe")),
    ],
)
def test_reasons(scheduler: str, plugin: PluginReport | None, said: Verdict) -> None:
    """The first thing that is to be put right is the reason."""
    assert verdict(scheduler, plugin) == said


@given(st.text(min_size=1000, max_size=3000))
def test_messages_are_short(words: str) -> None:
    """The API takes messages of any length, and people do not."""
    assert len(verdict(words, None).message) <= 1024


def test_what_is_bad_for_a_moment_is_not_said() -> None:
    """Neither at the start nor later; what is good is said at once."""
    steady = Steady(10.0)
    assert steady.said(AWAY, 0.0) is None
    assert steady.said(READY, 5.0) == READY
    assert steady.said(AWAY, 6.0) == READY
    assert steady.said(OTHER, 15.9) == READY
    assert steady.said(READY, 15.95) == READY
    assert steady.said(AWAY, 16.0) == READY


def test_what_stays_bad_is_said() -> None:
    """With the reason of now, whatever was the reason at first."""
    steady = Steady(10.0)
    assert steady.said(READY, 0.0) == READY
    assert steady.said(AWAY, 1.0) == READY
    assert steady.said(OTHER, 11.0) == OTHER
    assert steady.said(AWAY, 11.5) == AWAY
    assert steady.said(READY, 12.0) == READY
