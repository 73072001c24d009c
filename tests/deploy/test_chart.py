"""The chart, without a cluster: each of its values does what it says, and what is wrong is refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from nvshare.deviceplugin.settings.sources import load
from nvshare.scheduler.cli import Caller, app
from nvshare.scheduler.options import CommandLine
from tests.deploy.chart_values import POD, SCHEDULER, Effect
from tests.deploy.part_values import ALL_EFFECTS as EFFECTS
from tests.deploy.rendering import CHART, RENDER, helm_template, hooks, leaves, lines_of, rendered
from tests.deploy.test_manifests import VERSION

CHECKSUM = "spec.template.metadata.annotations.checksum/config"
# With these it is another ConfigMap, and so other pods anyway.
OTHER_OBJECTS = {"config.name", "fullnameOverride", "nameOverride", "namespaceOverride"}
VALUES = (CHART / "values.yaml").read_text()


@pytest.fixture
def helm(tool: Callable[[str], str]) -> str:
    """The helm that ``make helm`` builds."""
    return tool(RENDER["find_helm"]() or "helm")


def checksum(found: frozenset[str]) -> str:
    """What restarts the plugin's pods when it changes."""
    (line,) = [each for each in found if CHECKSUM in each]
    return line


def settings(found: frozenset[str]) -> set[str]:
    """What the plugin's ConfigMap says."""
    return {line for line in found if line.startswith("ConfigMap/nvshare-device-plugin data")}


def test_the_manifests_are_fresh(helm: str) -> None:
    """Those of deploy/ and deploy/simulated/ are what the chart makes now."""
    assert list(RENDER["stale"](helm)) == [], "run make manifests"


def test_helm_has_nothing_against_it(helm: str) -> None:
    """``helm lint`` finds neither errors nor warnings."""
    command = [helm, "lint", "--strict", "--kube-version", RENDER["KUBERNETES"], str(CHART)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_versions_are_the_packages() -> None:
    """The chart has the package's version, and so the image's tag."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.path)
def test_a_value_changes_what_it_says(helm: str, effect: Effect) -> None:
    """Set to something else, it changes these lines of the rendered objects and no others."""
    before = lines_of(helm, effect.beside)
    after = lines_of(helm, {**effect.beside, effect.path: effect.value})
    changed = {f"-{line}" for line in before - after} | {f"+{line}" for line in after - before}
    changed = {line for line in changed if CHECKSUM not in line or any("checksum" in each for each in effect.changes)}
    assert changed
    assert {each for each in effect.changes if not any(fnmatchcase(line, each) for line in changed)} == set()
    assert {line for line in changed if not any(fnmatchcase(line, each) for each in effect.changes)} == set()


def test_every_value_is_shown_to_do_something() -> None:
    """The table above has all that values.yaml has, and nothing else."""
    assert sorted(effect.path for effect in EFFECTS) == sorted(leaves(yaml.safe_load(VALUES)))


def test_every_value_is_explained() -> None:
    """Values whose names don't say all have a comment; the file is the chart's reference."""
    words = re.findall(r"^ *#", VALUES, re.MULTILINE)
    assert len(words) > len(EFFECTS) // 2


@pytest.mark.parametrize(
    "effect", [each for each in EFFECTS if each.path not in OTHER_OBJECTS], ids=lambda effect: effect.path
)
def test_pods_restart_when_the_settings_change(helm: str, effect: Effect) -> None:
    """The plugin's pods have another annotation if, and only if, its ConfigMap has other data."""
    before = lines_of(helm, effect.beside)
    after = lines_of(helm, {**effect.beside, effect.path: effect.value})
    same = settings(before) == settings(after)
    assert (checksum(before) == checksum(after)) == same


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.path)
def test_the_plugin_understands_the_settings(helm: str, effect: Effect, tmp_path: Path) -> None:
    """Whatever the values are, each file of the ConfigMap is one that the plugin takes."""
    found = rendered(helm, {**effect.beside, effect.path: effect.value})
    files = [each["data"] for each in found if each["kind"] == "ConfigMap" and "nvshare.json" not in each["data"]]
    for text in [text for data in files for text in data.values()]:
        file = tmp_path / "config.yaml"
        file.write_text(text)
        load({}, {}, file)


def test_the_scheduler_knows_its_options(helm: str) -> None:
    """Whatever the values are, its arguments are options that it has, with values that it takes."""
    objects = (lines_of(helm, {**effect.beside, effect.path: effect.value}) for effect in EFFECTS)
    found = {line.partition(" = ")[2] for each in objects for line in each if ".scheduler.args.- = " in line}
    assert {"--policy=exclusive", "--unresponsive=kill", "--quantum=0.5", "--host-memory=1.5TiB"} <= found
    for argument in found:
        told: list[CommandLine] = []
        beside = ["--swap-dir=/data/swap"] if argument.startswith("--swap-size=") else []
        CliRunner().invoke(app, [*beside, argument], obj=Caller({}, told.append))
        assert told, argument


def test_every_option_is_decided_upon(helm: str) -> None:
    """Each that the scheduler has may stand in ``extraArgs``, or is refused with the reason; those that end it at once
    are no options of a daemon."""
    known = set(leaves(yaml.safe_load(VALUES)))
    for option in (each.opts[0] for each in typer.main.get_command(app).params):
        said = helm_template(helm, {"scheduler.extraArgs": [f"{option}=1"]}).stderr
        ends = option in ("--version", "--install-completion", "--show-completion")
        assert ("each is one text" in said) == ends, option
        assert set(re.findall(r"by the value ([\w.]+)", said)) <= known, option


def test_a_share_of_the_memory_needs_no_limit(helm: str) -> None:
    """How much that is, only the node knows: the scheduler's limit would be wrong on most."""
    found = lines_of(helm, {"hostMemory": "50%"})
    scheduler = {line for line in found if line.startswith("DaemonSet/nvshare-scheduler ")}
    assert any(line.endswith(".args.- = --host-memory=50%") for line in scheduler)
    assert not [line for line in scheduler if ".limits" in line]


@pytest.mark.parametrize("value", [0, "0"])
def test_no_host_memory_is_a_choice(helm: str, value: object) -> None:
    """As values.yaml says it, quoted or not: it is not the default, which programs would swap into."""
    found = lines_of(helm, {"hostMemory": value})
    assert f"{SCHEDULER}.{POD}.containers.scheduler.args.- = --host-memory=0" in found
    assert f"{SCHEDULER}.{POD}.containers.scheduler.resources.limits.memory = 400Mi" in found


def test_terms_of_both_kinds_hold(helm: str) -> None:
    """A node needs one of the terms of ``affinity`` and one of NFD's labels, and must not be paused."""
    theirs = [{"matchExpressions": [{"key": pool, "operator": "Exists"}]} for pool in ("a", "b")]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": theirs}}
    for each in rendered(helm, {"affinity.nodeAffinity": required, "nfdAffinity": True}):
        if each["kind"] == "DaemonSet":
            ((_, affinity),) = each["spec"]["template"]["spec"]["affinity"]["nodeAffinity"].items()
            keys = [{term["key"] for term in terms["matchExpressions"]} for terms in affinity["nodeSelectorTerms"]]
            assert len(keys) == len({frozenset(each) for each in keys}) == 6
            assert all({"kubernetes.io/os", "kubernetes.io/arch", "nvshare.com/deploy"} < each for each in keys)


@pytest.mark.parametrize(
    ("values", "when"), [({}, "pre-delete"), ({"nodeAgent.enabled": False}, "pre-upgrade,pre-rollback")], ids=str
)
def test_node_agents_end_before_their_rights(helm: str, values: dict[str, object], when: str) -> None:
    """When the release ends, and when it loses its node agent: by an account that may delete that DaemonSet alone."""
    found = {each["kind"]: each for each in hooks(helm, values) if each["kind"] != "Pod"}
    assert sorted(found) == ["Job", "Role", "RoleBinding", "ServiceAccount"]
    assert {each["metadata"]["annotations"]["helm.sh/hook"] for each in found.values()} == {when}
    (rule,) = found["Role"]["rules"]
    assert rule["resourceNames"] == ["nvshare-node-agent"]
    assert (rule["resources"], rule["verbs"]) == (["daemonsets"], ["get", "delete"])
    pod = found["Job"]["spec"]["template"]["spec"]
    (subject,) = found["RoleBinding"]["subjects"]
    assert pod["serviceAccountName"] == subject["name"] == found["ServiceAccount"]["metadata"]["name"]
    *_, program, name = pod["containers"][0]["command"]
    assert (program, name) == ("nvshare.nodeagent.removal", rule["resourceNames"][0])
    assert find_spec(program) is not None


def test_an_account_of_ones_own_ends_them_too(helm: str) -> None:
    """Where none may be created the hook creates none."""
    values: dict[str, object] = {"serviceAccount.create": False, "serviceAccount.name": "mine"}
    found = {each["kind"]: each for each in hooks(helm, values)}
    assert "ServiceAccount" not in found
    assert found["Job"]["spec"]["template"]["spec"]["serviceAccountName"] == "mine"
    assert [each["name"] for each in found["RoleBinding"]["subjects"]] == ["mine"]


def test_an_older_cluster_has_no_policy(helm: str) -> None:
    """What is shipped for Kubernetes 1.30 is left out before that, and the rest is the same."""
    new, old = (RENDER["render"](helm, "--kube-version", version).stdout for version in ("1.30.0", "1.29.9"))
    kinds = [[each["kind"] for each in yaml.safe_load_all(text) if each] for text in (new, old)]
    assert set(kinds[0]) - set(kinds[1]) == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert [each for each in kinds[0] if "Policy" not in each] == kinds[1]


def test_two_releases_select_their_own_pods(helm: str) -> None:
    """One called nvshare has the selectors that manifests always had; others have their release's name, too."""
    done = RENDER["render"](helm, release="second")
    selectors = [
        each["spec"]["selector"]["matchLabels"]
        for each in yaml.safe_load_all(done.stdout)
        if each and each["kind"] == "DaemonSet"
    ]
    assert len(selectors) == 3
    assert all(each["app.kubernetes.io/instance"] == "second" for each in selectors)


def test_the_pictures_are_given_out_as_they_are(helm: str, tmp_path: Path) -> None:
    """Dashboard and alerts are the chart's files; what looks like a template in them is theirs."""
    chart = tmp_path / "nvshare"
    shutil.copytree(CHART, chart)
    (chart / "files").mkdir(exist_ok=True)
    dashboard = {"title": "nvshare", "panels": [{"legendFormat": "{{pod}}"}]}
    alerts = {"groups": [{"name": "nvshare", "rules": [{"alert": "A", "annotations": {"a": "{{ $labels.node }}"}}]}]}
    (chart / "files" / "dashboard.json").write_text(json.dumps(dashboard, indent=2) + "\n")
    (chart / "files" / "alerts.yaml").write_text(yaml.safe_dump(alerts))
    found = rendered(helm, {"metrics.dashboard.enabled": True, "metrics.alerts.enabled": True}, chart=chart)
    (config,) = [each for each in found if each["metadata"]["labels"].get("grafana_dashboard") == "1"]
    (rule,) = [each for each in found if each["kind"] == "PrometheusRule"]
    assert json.loads(config["data"]["nvshare.json"]) == dashboard
    assert rule["spec"] == alerts
