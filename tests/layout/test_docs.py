"""What pages name is there: files, headings, variables, commands and their options, metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import typer.main

from nvshare.ctl import command_line
from nvshare.ctl.kubectl import command_line as kubectl_command_line
from nvshare.deviceplugin import cli as device_plugin
from nvshare.nodeagent import cli as node_agent
from nvshare.scheduler import cli as scheduler
from tests.layout.tree import PACKAGE, ROOT, below, line_of, name, nobody, text, tracked

# The one that is left out is a form, from which docs/compatibility.md is made.
PAGES = [path for path in below(ROOT, ".md") if path != ROOT / "tests" / "gpu" / "page.md"]
# Those for who changes something: they name files by the end of their paths.
OF_THE_CODE = [
    *(ROOT / page for page in ("ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "tests/README.md")),
    *(path for path in PAGES if path.is_relative_to(PACKAGE)),
]
# What was is in these, too.
OF_THE_PAST = {ROOT / "CHANGELOG.md", ROOT / "bench" / "RESULTS.md"}
OF_THE_ORIGINAL = ROOT / "docs" / "from-nvshare-0.1.1.md"
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
METRIC = re.compile(r"`(?:[^`\n]*\b)?(nvshare_[a-z0-9_]*[a-z0-9])\b(?![*/.{])")
VARIABLE = re.compile(r"\bNVSHARE_[A-Z_]+[A-Z]\b")
# But for what is made and not tracked.
FILE = re.compile(r"`(?!build/|dist/|\.)([\w.-]+(?:/[\w.-]+)*(?:\.(?:py|c|h|md|inc|def|tsv|proto)|/))`")
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


@cache
def anchors(page: Path) -> set[str]:
    """Of its headings, as Markdown's usual renderers make them."""
    texts = (re.sub(r"[^\w\- ]", "", heading.lower()).strip() for heading in HEADING.findall(text(page)))
    return {heading.replace(" ", "-") for heading in texts}


def found(pattern: re.Pattern[str], pages: list[Path]) -> Iterator[tuple[Path, str, re.Match[str]]]:
    """Each match in each of the pages, with its page and place."""
    for page in pages:
        for match in pattern.finditer(text(page)):
            yield page, line_of(page, text(page), match.start()), match


def test_links_lead_somewhere() -> None:
    """Every link to a file of the repository, and to a heading in one."""

    def is_right(page: Path, link: str) -> bool:
        file, _, heading = link.partition("#")
        target = page.parent / file if file else page
        return target.exists() and (not heading or heading in anchors(target))

    links = ((page, where, match[1]) for page, where, match in found(LINK, PAGES) if "://" not in match[1])
    nobody(f"{where}: {link}" for page, where, link in links if not is_right(page, link))


def test_every_page_is_in_the_index() -> None:
    """docs/README.md links to each page beside it."""
    index = set(LINK.findall(text(ROOT / "docs" / "README.md")))
    nobody(name(page) for page in below(ROOT / "docs", ".md") if page.name not in index | {"README.md"})


def test_files_exist() -> None:
    """A file or folder that a page about the code names, by its path or the end of that, is there."""
    parts = [path.relative_to(ROOT).parts for path in tracked()]
    ends = {"/".join(each[begin:]) for each in parts for begin in range(len(each))}
    within = {
        "/".join(each[begin:end]) + "/"
        for each in {each[:-1] for each in parts}
        for begin in range(len(each))
        for end in range(begin + 1, len(each) + 1)
    }
    nobody(f"{where}: {match[1]}" for _, where, match in found(FILE, OF_THE_CODE) if match[1] not in ends | within)


def test_variables_exist() -> None:
    """Something in src/, the tests or the Makefile reads each, or writes it into an environment."""
    files = [*below(ROOT / "src", ".py", ".c", ".h"), *below(ROOT / "tests", ".py"), ROOT / ".ci" / "run"]
    known = {variable for file in files for variable in VARIABLE.findall(text(file))}
    pages = [page for page in PAGES if page != OF_THE_ORIGINAL]
    nobody(f"{where}: {match[0]}" for _, where, match in found(VARIABLE, pages) if match[0] not in known)


def test_commands_and_their_options_exist() -> None:
    """What follows nvshare-ctl or kubectl nvshare is a command, and has the options named with it."""

    def is_right(program: str, words: list[str]) -> bool:
        command = PROGRAMS[program]
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        if command is PROGRAMS[program] and words and not words[0].startswith("-"):
            return False
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        before = words[: words.index("--")] if "--" in words else words
        return {word for word in before if OPTION.fullmatch(word)} <= known

    uses = ((where, match[1], match[2].strip()) for _, where, match in found(USE, PAGES))
    nobody(f"{where}: {program} {rest}" for where, program, rest in uses if not is_right(program, rest.split()))


def test_metrics_exist() -> None:
    """Each is in docs/monitoring.md, which is compared with what is served, or the node agent's."""
    served = text(ROOT / "docs" / "monitoring.md")
    known = set(re.findall(r"^\| `(nvshare_[a-z0-9_]+)`", served, re.MULTILINE))
    agents = text(PACKAGE / "nodeagent" / "metrics.py")
    names = {metric.removeprefix("nvshare_node_agent_") for metric in re.findall(r'"(\w+)"', agents)}
    known |= {f"nvshare_node_agent_{metric}{end}" for metric in names for end in ("", "_total")}
    pages = [page for page in PAGES if page not in OF_THE_PAST]
    nobody(f"{where}: {match[1]}" for _, where, match in found(METRIC, pages) if match[1] not in known)
