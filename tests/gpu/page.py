"""docs/compatibility.md, from results: ``python -m tests.gpu.page [RESULTS.json ...]``.

What the files have is joined to ``results.json`` beside this file, the last of them counting most, and the page is made
of that. Without files the page is made anew.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.gpu import results
from tests.gpu.results import Results
from tests.gpu.rows import ROWS

HERE = Path(__file__).parent
TEMPLATE = HERE / "page.md"
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "compatibility.md"
NOTHING = """**Not filled yet for this version**: no results of `python -m tests.gpu` on a real GPU are in the tree.
What benchmarks have shown is at the end of this page."""


def page(template: str, found: Results) -> str:
    """The text of the page."""
    return template.replace("{table}", _table(found) if found else NOTHING)


def _table(found: Results) -> str:
    machines: dict[str, list[str]] = {}
    versions: dict[str, dict[str, list[str]]] = {}
    for name, row in found.items():
        machines.setdefault(row.machine, []).append(name)
        for package, text in row.versions.items():
            versions.setdefault(package, {}).setdefault(text, []).append(name)
    made = "\n".join(f"- {machine}{_rows(names, len(machines))}" for machine, names in machines.items())
    packages = ", ".join(
        f"{package} {text}{_rows(names, len(texts))}"
        for package, texts in sorted(versions.items())
        for text, names in texts.items()
    )
    table = results.table(found, ROWS)
    return f"{table}\nMade on, with the rows' names for `--only`:\n\n{made}\n\nWith {packages or 'no packages'}."


def _rows(names: list[str], choices: int) -> str:
    """Which rows, where not all are alike."""
    return f" ({', '.join(names)})" if choices > 1 else ""


def saved() -> Results:
    """What is in the tree."""
    return results.read(RESULTS) if RESULTS.exists() else {}


def main() -> int:
    """Exit status 1: a file has no results."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.page", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="RESULTS.json")
    options = parser.parse_args()
    try:
        found = results.merged([saved(), *map(results.read, options.files)])
    except (OSError, ValueError) as error:
        print(f"python -m tests.gpu.page: {error}", file=sys.stderr)
        return 1
    if found:
        results.write(found, RESULTS)
    PAGE.write_text(page(TEMPLATE.read_text(encoding="utf-8"), found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
