"""The pages for who changes something: short, every module named, and imports as they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.layout.tree import PACKAGE, ROOT, at, below, module_of, name, nobody, own_imports, text

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
MOST_LINES, MOST_COLUMNS = 120, 140
PAGES = {path.parent: path for path in below(PACKAGE, ".md") if path.name == "README.md"}
# What Python and build tools name; a page names the folder.
NAMELESS = ("__init__", "__main__")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
ONE_WAY = "A row imports only rows above it"
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


@cache
def named(page: Path) -> set[str]:
    """The words that a page writes as code: modules without their suffixes, folders without their slash."""
    return {word for code in CODE.findall(text(page)) for word in re.findall(r"\w+", code)}


def page_of(path: Path) -> Path:
    """The page that a file belongs to: that of the nearest folder above which has one."""
    return next(PAGES[folder] for folder in path.parents if folder in PAGES)


def test_architecture_is_two_pages() -> None:
    """ARCHITECTURE.md stays what one reads at a sitting: what is longer belongs to a folder's page."""
    lines = text(ARCHITECTURE).splitlines()
    wide = [at(ARCHITECTURE, number) for number, line in enumerate(lines, 1) if len(line) > MOST_COLUMNS]
    nobody(wide + [at(ARCHITECTURE, number) for number in range(MOST_LINES + 1, len(lines) + 1)])


def test_every_page_is_on_the_map() -> None:
    """ARCHITECTURE.md, or the page of a folder above, names each folder that has a page."""

    def is_named(folder: Path) -> bool:
        above = [ARCHITECTURE, *(PAGES[other] for other in folder.parents if other in PAGES)]
        return any(folder.name in named(page) for page in above)

    nobody(name(page) for folder, page in PAGES.items() if not is_named(folder))


def test_every_module_is_named() -> None:
    """The page of a folder names each module below it that no nearer page owns."""
    nobody(
        f"{name(page_of(path))} does not name {name(path)}"
        for path in below(PACKAGE, ".py", ".c", ".h")
        if path.stem not in named(page_of(path)) and path.stem not in NAMELESS
    )


def rows(page: Path) -> Iterator[set[str]]:
    """What each row of a page's table of files owns, from the top."""
    table = TABLE.search(text(page).partition(ONE_WAY)[2])
    for row in table[0].splitlines()[2:] if table else ():
        yield set(re.findall(r"\w+", row.split("|")[1]))


def wrong_ways(folder: Path) -> Iterator[str]:
    """What in a folder imports a row below its own on the folder's page, or is in no row."""
    order = {part: number for number, parts in enumerate(rows(PAGES[folder])) for part in parts}
    package = f"{module_of(folder / '__init__.py')}."
    for path in below(folder, ".py"):
        own = path.relative_to(folder).with_suffix("").parts[0]
        if own not in order and own not in NAMELESS:
            yield f"{name(PAGES[folder])} has no row for {name(path)}"
        for module, line in own_imports(path).items():
            other = module.removeprefix(package).split(".")[0]
            if module.startswith(package) and order.get(own, len(order)) < order.get(other, 0):
                yield f"{at(path, line)}: {own} stands above {other}"


def test_imports_run_as_the_pages_say() -> None:
    """On a page that says so each row's modules import only their own and those of rows above."""
    nobody(wrong for folder, page in PAGES.items() if ONE_WAY in text(page) for wrong in wrong_ways(folder))
