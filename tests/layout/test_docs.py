"""What the pages for users name is there: files, headings, variables, commands and their options, metrics."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from nvshare.ctl import command_line
from nvshare.ctl.kubectl import command_line as kubectl_command_line
from nvshare.deviceplugin import cli as device_plugin
from nvshare.nodeagent import cli as node_agent
from nvshare.scheduler import cli as scheduler
from tests.layout.tree import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
METRIC = re.compile(r"`(?:[^`\n]*\b)?(nvshare_[a-z0-9_]*[a-z0-9])\b(?![*/.{])")
VARIABLE = re.compile(r"\bNVSHARE_[A-Z_]+[A-Z]\b")
USE = re.compile(
    r"(?:^    |`|-- )(nvshare-(?:ctl|scheduler|device-plugin|node-agent)|kubectl nvshare)(?![\w/-])([^`\n#|>]*)",
    re.MULTILINE,
)
OPTION = re.compile(r"--?[a-z][a-z-]*")
PROGRAMS = {
    "nvshare-ctl": typer.main.get_command(command_line.build()),
    "nvshare-scheduler": typer.main.get_command(scheduler.app),
    "nvshare-device-plugin": typer.main.get_command(device_plugin.app),
    "nvshare-node-agent": typer.main.get_command(node_agent.app),
    "kubectl nvshare": typer.main.get_command(kubectl_command_line.build()),
}
OF_THE_ORIGINAL = "from-nvshare-0.1.1.md"

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    """Of its headings, as Markdown's usual renderers make them."""
    texts = (re.sub(r"[^\w\- ]", "", text.lower()).strip() for text in HEADING.findall(page.read_text()))
    return {text.replace(" ", "-") for text in texts}


@pages
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of the repository, and to a heading in one."""
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


def test_every_page_is_in_the_index() -> None:
    """docs/README.md links to each page beside it."""
    index = set(LINK.findall((ROOT / "docs" / "README.md").read_text()))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= index


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != OF_THE_ORIGINAL], ids=lambda page: page.name)
def test_variables_exist(page: Path) -> None:
    """Something in src/, the tests or the Makefile reads each, or writes it into an environment."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.[ch]"), *(ROOT / "tests").rglob("*.py")]
    known = set(VARIABLE.findall("\n".join(file.read_text() for file in [*files, ROOT / ".ci" / "run"])))
    assert set(VARIABLE.findall(page.read_text())) <= known


@pages
def test_commands_and_their_options_exist(page: Path) -> None:
    """What follows nvshare-ctl or kubectl nvshare is a command, and has the options named with it."""
    for program, rest in USE.findall(page.read_text()):
        command, words = PROGRAMS[program], rest.split()
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert command is not PROGRAMS[program] or not words or words[0].startswith("-"), (program, rest)
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        before = words[: words.index("--")] if "--" in words else words
        assert {word for word in before if OPTION.fullmatch(word)} <= known, (program, rest)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_metrics_exist(page: Path) -> None:
    """Each is in docs/monitoring.md, which is compared with what is served, or the node agent's."""
    text = (ROOT / "docs" / "monitoring.md").read_text()
    known = set(re.findall(r"^\| `(nvshare_[a-z0-9_]+)`", text, re.MULTILINE))
    agents = (ROOT / "src" / "nvshare" / "nodeagent" / "metrics.py").read_text()
    names = {name.removeprefix("nvshare_node_agent_") for name in re.findall(r'"(\w+)"', agents)}
    known |= {f"nvshare_node_agent_{name}{end}" for name in names for end in ("", "_total")}
    assert set(METRIC.findall(page.read_text())) <= known
