"""Generated files are committed and are what their generator makes now."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from nvshare.shim.csrc.hooks import generate
from tests.layout.tree import GENERATED, PACKAGE, ROOT, name, nobody, tracked


def test_stubs_are_fresh(tmp_path: Path) -> None:
    """The stubs beside the code are those of the files in protos/, the layout is that of the headers."""
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, str(ROOT / "protos" / "generate.py"), str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PATH": search})
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    committed = {
        path.relative_to(PACKAGE.parent): path.read_text() for path in tracked() if path.name.endswith(GENERATED)
    }
    nobody(
        f"src/{path}: make generate" for path in sorted({*made, *committed}) if made.get(path) != committed.get(path)
    )


def test_gated_hooks_are_fresh() -> None:
    """The hooks that only pass the gate are those of the list of entry points."""
    made = generate.generate().items()
    nobody(f"{name(path)}: make generate" for path, content in made if path.read_text() != content)


def test_make_generates_everything() -> None:
    """``make generate`` runs every generator that there is, and none that is not."""
    rule = re.search(r"^generate:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    run = set(re.findall(r"\S+/generate\.py", rule[1] if rule else ""))
    nobody(sorted(run ^ {name(path) for path in tracked() if path.name == "generate.py"}))
