"""docs/from-nvshare-0.1.1.md: what it names exists, and what it tells to delete stands in the way."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from typer.testing import CliRunner

from nvshare import paths
from nvshare.ctl.nvsharectl.command_line import build
from nvshare.ctl.options.seconds import LONGEST_QUANTUM
from nvshare.protocol.legacy import MESSAGE_BYTES, LegacyType
from nvshare.scheduler.cli import app
from tests.deploy.test_manifests import DEPLOY, ROOT, daemon_set, documents

PAGE = (ROOT / "docs" / "from-nvshare-0.1.1.md").read_text()
QUOTED = re.findall(r"`([^`]+)`", PAGE)
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    ")]
DAEMON_SETS = ("nvshare-scheduler", "nvshare-device-plugin")


def options(application: Any, width: int = 200) -> set[str]:
    """All that a command's help names."""
    shown = CliRunner(env={"COLUMNS": str(width)}).invoke(application, ["--help"], obj={})
    assert shown.exit_code == 0
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", shown.output))


def test_options_exist() -> None:
    """Each option in the text is one of the scheduler's or of nvsharectl's."""
    own = [text for text in QUOTED if not text.startswith("kubectl")]
    named = {option for text in own for option in re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", text)}
    assert {"--legacy-device", "-T", "-S", "--set-tq", "--anti-thrash"} <= named
    assert named <= options(app) | options(build())


def test_variables_exist() -> None:
    """Each variable in the text is one of paths.py."""
    named = {word for text in QUOTED for word in re.findall(r"NVSHARE_[A-Z_]+", text)}
    assert named <= {value for value in vars(paths).values() if isinstance(value, str)}
    assert {paths.DEBUG, paths.SINGLE_OVERSUB, paths.VIRTUAL_DEVICES} <= named


def test_commands_exist() -> None:
    """The package installs what is told to be called."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    called = {text.split()[0] for text in QUOTED if re.match(r"(nvshare|nvsharectl)[\w-]* ", text)}
    assert called
    assert called <= scripts.keys()


@pytest.mark.parametrize("name", DAEMON_SETS)
def test_daemon_sets_are_deleted_first(name: str) -> None:
    """They keep the original's name under another selector, which nobody can change; so they are deleted before."""
    selector = daemon_set(DEPLOY, name)["spec"]["selector"]["matchLabels"]
    assert selector == {"app.kubernetes.io/name": name}
    delete = next(place for place, line in enumerate(COMMANDS) if " delete daemonset " in line and name in line)
    assert delete < COMMANDS.index("kubectl apply -f deploy/")


def test_names_of_the_manifests() -> None:
    """What the page calls the present names is so called."""
    quota, namespace = ("ResourceQuota", "Namespace")
    names = {each["kind"]: each["metadata"]["name"] for each in documents(DEPLOY)}
    containers = {
        container["name"]
        for name in DAEMON_SETS
        for part in ("containers", "initContainers")
        for container in daemon_set(DEPLOY, name)["spec"]["template"]["spec"].get(part, ())
    }
    assert {names[quota], names[namespace], *containers} <= set(QUOTED)
    assert containers == {"scheduler", "device-plugin"}
    images = {line.split()[-1] for line in (DEPLOY / "30-scheduler.yaml").read_text().splitlines() if "image: " in line}
    assert images <= set(QUOTED)


def test_the_protocol() -> None:
    """Every message is named, and its length."""
    protocol = PAGE.partition("## The protocol")[2]
    assert all(kind.name in protocol for kind in LegacyType)
    assert f"{MESSAGE_BYTES} bytes" in protocol
    assert f"{LONGEST_QUANTUM:g} seconds" in protocol
