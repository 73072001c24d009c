"""Who may know whom, in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.layout.tree import PACKAGE, below, imports, module_of, name

# Where the parts begin that are told what happened and what time it is; all that they reach is pure with them.
PURE_ROOTS = {"scheduler": {"core"}, "deviceplugin": {"devices", "preference", "allocation"}}
PURE_STANDARD_LIBRARY = {"__future__", "collections", "dataclasses", "enum", "typing"}
EVENT_LOOP = {"asyncio", "grpc"}
STRANGERS = ("scheduler", "deviceplugin", "shim", "ctl")

python_files = pytest.mark.parametrize("path", below(PACKAGE, ".py"), ids=name)


def package_of(path: Path) -> str:
    """The folder of nvshare that a file is in; empty for nvshare's own modules."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


def pure_modules(package: str) -> list[Path]:
    """The roots of a package's pure part and every module of the package that they import, directly or not."""
    files = {module_of(path): path for path in below(PACKAGE / package, ".py")}
    open_ends = [f"nvshare.{package}.{root}" for root in PURE_ROOTS[package]]
    found: set[str] = set()
    while open_ends:
        module = open_ends.pop()
        if module not in found:
            found.add(module)
            open_ends += imports(files[module]) & files.keys()
    return [files[module] for module in sorted(found)]


@pytest.mark.parametrize("path", pure_modules("scheduler"), ids=name)
def test_core_knows_only_itself(path: Path) -> None:
    """The scheduler's core imports itself and modules that can neither wait, nor look, nor roll dice."""
    own = {module_of(other) for other in pure_modules("scheduler")}
    foreign = {
        imported
        for imported in imports(path)
        if imported.split(".")[0] not in PURE_STANDARD_LIBRARY
        and imported not in own
        and imported.rpartition(".")[0] not in own
    }
    assert not foreign


@pytest.mark.parametrize(
    "path",
    [
        *pure_modules("scheduler"),
        *pure_modules("deviceplugin"),
        *below(PACKAGE / "protocol", ".py"),
        *below(PACKAGE / "shim", ".py"),
        PACKAGE / "paths.py",
    ],
    ids=name,
)
def test_event_loop_stays_in_the_shell(path: Path) -> None:
    """What decides, encodes or names things imports neither asyncio nor grpc."""
    assert not {imported.split(".")[0] for imported in imports(path)} & EVENT_LOOP


@python_files
def test_programs_are_strangers(path: Path) -> None:
    """Scheduler, device plugin, shim and ctl never import one another.

    The face of the shim is the exception: where the library is and what a process needs to be preloaded with it.
    """
    own = package_of(path)
    if own not in STRANGERS:
        return
    others = {f"nvshare.{other}" for other in STRANGERS if other != own}
    known = {
        imported
        for imported in imports(path)
        if any(imported == other or imported.startswith(other + ".") for other in others)
    }
    face = {"nvshare.shim", "nvshare.shim.library_path", "nvshare.shim.preload_environment"}
    assert not known - face


@python_files
def test_cffi_stays_in_the_codec(path: Path) -> None:
    """Objects of cffi never leave the codec, and no module loads cffi's parser."""
    assert not {imported for imported in imports(path) if imported.split(".")[0] in ("cffi", "_cffi_backend")}
    if module_of(path) != "nvshare.protocol.wire":
        assert "nvshare._core" not in imports(path)


@python_files
def test_environment_is_read_at_the_door(path: Path) -> None:
    """Only paths.py and the __main__ modules look at the process's environment; the rest is told."""
    if path.name == "__main__.py" or module_of(path) == "nvshare.paths":
        return
    assert not imports(path) & {"os.environ", "os.getenv"}
    text = path.read_text()
    assert "os.environ" not in text
    assert "os.getenv" not in text
