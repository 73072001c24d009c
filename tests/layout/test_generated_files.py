"""Generated files are committed and are what their generator makes now."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from nvshare.shim.csrc.hooks import generate
from tests.layout.tree import GENERATED, PACKAGE, ROOT, name, tracked


def test_stubs_are_fresh(tmp_path: Path) -> None:
    """The stubs beside the code are those of the files in protos/, the layout is that of the headers."""
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, str(ROOT / "protos" / "generate.py"), str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PATH": search})
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    committed = {path.relative_to(PACKAGE.parent) for path in tracked() if path.name.endswith(GENERATED)}
    assert made == committed
    stale = [str(path) for path in made if (tmp_path / path).read_text() != (PACKAGE.parent / path).read_text()]
    assert not stale, "run make generate"


def test_gated_hooks_are_fresh() -> None:
    """The hooks that only pass the gate are those of the list of entry points."""
    stale = [name(path) for path, content in generate.generate().items() if path.read_text() != content]
    assert not stale, "run make generate"


def test_make_generates_everything() -> None:
    """``make generate`` runs every generator that there is."""
    rule = re.search(r"^generate:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert rule
    run = set(re.findall(r"\S+/generate\.py", rule[1]))
    assert run == {name(path) for path in tracked() if path.name == "generate.py"}
