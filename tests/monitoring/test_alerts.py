"""Prometheus' rules for alerts: each fires when it should, after its time, and not when it should not."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.layout.tree import ROOT

ALERTS = ROOT / "deploy" / "helm" / "nvshare" / "files" / "alerts.yaml"
RULES = {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}
LONG = 400
"""Minutes: longer than any alert takes."""
SEVERITIES = {"critical", "warning", "info"}

GPU = 'node="n",gpu="g"'
POD = f'{GPU},namespace="s",pod="p",container="c"'
INFO = 'nvshare_scheduler_info{node="n",version="1"}'
STREAMS = 'nvshare_plugin_list_and_watch_streams{node="n"}'
SCHEDULER = 'nvshare_plugin_problem{node="n",kind="scheduler"}'
HEALTHY = f"nvshare_plugin_gpu_healthy{{{GPU}}}"
STORED, DISK = 'nvshare_swap_file_used_bytes{node="n"}', 'nvshare_swap_file_bytes{node="n"}'
USED, BUDGET = 'nvshare_host_memory_used_bytes{node="n"}', 'nvshare_host_memory_bytes{node="n"}'
WAIT = f"nvshare_container_longest_wait_seconds{{{POD}}}"
DROPPED = 'nvshare_scheduler_dropped_connections_total{node="n",reason="%s"}'
LOST = 'nvshare_lost_processes_total{node="n"}'
STALLED = f"nvshare_stall_seconds_sum{{{POD}}}"
OPEN, MOST = 'nvshare_scheduler_connections{node="n"}', 'nvshare_scheduler_connections_limit{node="n"}'

Series = dict[str, str]
"""Figures a minute, in promtool's notation, by series."""


@dataclass(frozen=True)
class Case:
    """What one alert is to say of some series."""

    alert: str
    series: Series
    after: int
    """Minutes until it fires; two minutes earlier it does not."""
    labels: str
    quiet: list[Series] = field(default_factory=list)
    """Of which it is to say nothing, however long."""


def always(figure: float) -> str:
    """The same all the time."""
    return f"{figure:g}x{LONG}"


CASES = [
    Case("NvshareSchedulerAway", {SCHEDULER: always(1)}, 2, 'node="n"', [{SCHEDULER: always(0)}]),
    Case(
        "NvshareSchedulerNotScraped",
        {STREAMS: always(1)},
        10,
        'node="n"',
        [{STREAMS: always(0), INFO: always(1)}, {INFO: always(1)}],
    ),
    Case(
        "NvsharePluginNotScraped",
        {INFO: always(1), 'nvshare_plugin_list_and_watch_streams{node="other"}': always(1)},
        10,
        'node="n"',
        [{INFO: always(1), STREAMS: always(0)}, {STREAMS: always(1)}],
    ),
    Case(
        "NvshareNvmlBroken",
        {'nvshare_plugin_nvml_state{node="n",state="driver_not_loaded"}': always(1)},
        5,
        'node="n",state="driver_not_loaded"',
        [
            {'nvshare_plugin_nvml_state{node="n",state="silent"}': always(0)},
            {f'nvshare_scheduler_nvml_state{{node="n",state="{state}"}}': always(1) for state in ("ok", "no_gpu")},
        ],
    ),
    Case(
        "NvshareGpuUnhealthy",
        {HEALTHY: always(0), SCHEDULER: always(0)},
        2,
        GPU,
        [{HEALTHY: always(1)}, {HEALTHY: always(0), SCHEDULER: always(1)}],
    ),
    Case(
        "NvsharePluginProblem",
        {'nvshare_plugin_problem{node="n",kind="kubelet"}': always(1)},
        5,
        'node="n",kind="kubelet"',
        [{'nvshare_plugin_problem{node="n",kind="kubelet"}': always(0)}, {SCHEDULER: always(1)}],
    ),
    Case(
        "NvshareHolderUnresponsive",
        {f"nvshare_unresponsive_holders{{{GPU}}}": always(1)},
        1,
        GPU,
        [{f"nvshare_unresponsive_holders{{{GPU}}}": always(0)}],
    ),
    Case(
        "NvshareGpuRecovering",
        {f"nvshare_recovering{{{GPU}}}": always(1)},
        10,
        GPU,
        [{f"nvshare_recovering{{{GPU}}}": always(0)}, {f"nvshare_recovering{{{GPU}}}": f"1x8 0x{LONG}"}],
    ),
    Case(
        "NvshareHostMemoryNearlyFull",
        {USED: always(95e9), BUDGET: always(100e9), STORED: always(0), DISK: always(0)},
        5,
        'node="n"',
        [
            {USED: always(85e9), BUDGET: always(100e9)},
            {USED: always(0), BUDGET: always(0)},
            {USED: always(95e9), BUDGET: always(100e9), STORED: always(5e11), DISK: always(1e12)},
        ],
    ),
    # It waits since the first minute: after half an hour that is too long.
    Case(
        "NvshareLongWait",
        {WAIT: f"0+60x{LONG}"},
        32,
        POD,
        [{WAIT: always(1700)}, {WAIT: f"0 600 1200 0 600 1200 0x{LONG}"}],
    ),
    Case(
        "NvshareAllocationWithoutClient",
        {f"nvshare_allocations_without_client{{{GPU}}}": always(2)},
        360,
        GPU,
        [{f"nvshare_allocations_without_client{{{GPU}}}": f"1x350 0x{LONG}"}],
    ),
    Case(
        "NvshareGpuGivenTwice",
        {f"nvshare_allocations_by_others{{{GPU}}}": always(1)},
        5,
        GPU,
        [{f"nvshare_allocations_by_others{{{GPU}}}": always(0)}],
    ),
    Case(
        "NvshareProgramOnForeignGpu",
        {DROPPED % "not-given": f"0x9 1x{LONG}"},
        10,
        'node="n"',
        [{DROPPED % "not-given": always(5)}, {DROPPED % "protocol": f"0+1x{LONG}"}],
    ),
    # The scheduler's figure begins anew with it.
    Case("NvshareProgramLost", {LOST: f"0x9 1x{LONG}"}, 10, 'node="n"', [{LOST: always(2)}, {LOST: f"2x9 0x{LONG}"}]),
    Case(
        "NvshareRefusedAllocations",
        {f"nvshare_refused_growths_total{{{GPU}}}": f"3x9 4x{LONG}"},
        10,
        GPU,
        [{f"nvshare_refused_growths_total{{{GPU}}}": always(3)}],
    ),
    # 18 of 60 seconds: by the thirteenth minute that is a quarter of the first fifteen.
    Case("NvshareThrashing", {STALLED: f"0+18x{LONG}"}, 29, GPU, [{STALLED: f"0+12x{LONG}"}]),
    Case(
        "NvshareConnectionsNearlyUsedUp",
        {OPEN: always(950), MOST: always(1000)},
        5,
        'node="n"',
        [{OPEN: always(850), MOST: always(1000)}],
    ),
]


def series(given: Series) -> list[dict[str, str]]:
    """As promtool wants it."""
    return [{"series": name, "values": values} for name, values in given.items()]


def firing(alert: str, minutes: int, labels: str | None) -> dict[str, Any]:
    """The alert fires with these labels then; None: it does not."""
    more = f'alertname="{alert}",alertstate="firing",severity="{RULES[alert]["labels"]["severity"]}"'
    samples = [] if labels is None else [{"labels": f"ALERTS{{{more},{labels}}}", "value": 1}]
    return {
        "expr": f'ALERTS{{alertname="{alert}",alertstate="firing"}}',
        "eval_time": f"{minutes}m",
        "exp_samples": samples,
    }


def cases_of(case: Case) -> list[dict[str, Any]]:
    """promtool's tests of one alert."""
    moments = [firing(case.alert, case.after, case.labels)]
    if case.after > 2:
        moments.append(firing(case.alert, case.after - 2, None))
    tests = [{"interval": "1m", "input_series": series(case.series), "promql_expr_test": moments}]
    for quiet in case.quiet:
        late = [firing(case.alert, minutes, None) for minutes in (1, 5, 20, 60, LONG)]
        tests.append({"interval": "1m", "input_series": series(quiet), "promql_expr_test": late})
    return tests


def promtool(path: str, *arguments: str) -> None:
    """Fails with what promtool says."""
    done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_are_well_formed(tool: Callable[[str], str]) -> None:
    """Expressions and the templates in texts."""
    promtool(tool("promtool"), "check", "rules", str(ALERTS))


@pytest.mark.parametrize("name", RULES)
def test_every_alert_says_what_to_do(name: str) -> None:
    """How grave it is, what is wrong, what that means, and what to do about it, in texts that come to an end."""
    rule = RULES[name]
    assert rule["labels"]["severity"] in SEVERITIES
    assert rule["annotations"].keys() == {"summary", "description", "action"}
    assert all(text.strip() for text in rule["annotations"].values())
    used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
    given = set(re.findall(r"(\w+)=", next(case.labels for case in CASES if case.alert == name)))
    assert used <= given


@pytest.mark.soak
def test_alerts_fire_and_do_not(tool: Callable[[str], str], tmp_path: Path) -> None:
    """Every alert, after its time, with the labels by which it is found; and what is near to it, and well."""
    assert {case.alert for case in CASES} == RULES.keys()
    assert all(case.quiet for case in CASES)
    tests = [test for case in CASES for test in cases_of(case)]
    document = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump(document))
    promtool(tool("promtool"), "test", "rules", str(file))
