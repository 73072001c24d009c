"""Who may know whom, in Python."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.layout.tree import PACKAGE, below, imports, module_of, name

SCHEDULER = PACKAGE / "scheduler"
CORE = below(SCHEDULER / "core", ".py")
CORE_STANDARD_LIBRARY = {"__future__", "collections", "dataclasses", "enum", "typing"}
PLUGIN = PACKAGE / "deviceplugin"
# What answers kubelet; of the plugin it imports nothing else (PLUGIN_MAY_IMPORT).
PLUGIN_PURE = [PLUGIN / "devices.py", *below(PLUGIN / "answers", ".py")]
# What a module whose docstring says "Pure." must not reach: it can wait, look, or roll dice.
IMPURE = {
    "asyncio",
    "concurrent",
    "fcntl",
    "grpc",
    "http",
    "logging",
    "multiprocessing",
    "os",
    "prometheus_client",
    "pynvml",
    "random",
    "secrets",
    "select",
    "shutil",
    "signal",
    "socket",
    "structlog",
    "subprocess",
    "threading",
    "time",
    "urllib",
}
# Names only: it reads the environment when it is asked to.
PATHS = "nvshare.paths"
EVENT_LOOP = {"asyncio", "grpc"}
STRANGERS = ("scheduler", "deviceplugin", "nodeagent", "shim", "ctl", "demo")
# What each folder of a program, and each of its own modules that a folder may know, may import of the others. The
# program's other modules wire everything together: they may import all of these, and none of these imports them.
SCHEDULER_MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "worker": set(),
    "pods": set(),
    "recovery": {"core", "pods"},
    "registered_client": {"core", "pods", "recovery"},
    "reports": {"core", "registered_client"},
    "commands": {"core"},
    "dispatcher": {"core", "pods", "recovery", "registered_client", "reports", "commands"},
    "memberships": {"core", "pods", "recovery", "commands", "dispatcher"},
    "arenas": {"core", "worker", "registered_client"},
    "swapping": {"core", "recovery", "registered_client", "dispatcher", "arenas"},
    "gpus": {"core", "worker", "recovery", "dispatcher"},
    "clients": {
        "core",
        "worker",
        "pods",
        "recovery",
        "registered_client",
        "commands",
        "dispatcher",
        "memberships",
        "swapping",
        "gpus",
    },
    "api": {
        "core",
        "pods",
        "recovery",
        "registered_client",
        "commands",
        "dispatcher",
        "memberships",
        "gpus",
        "clients",
    },
}
PLUGIN_MAY_IMPORT: dict[str, set[str]] = {
    "devices": set(),
    "metrics": {"devices"},
    "answers": {"devices"},
    "gpus": {"devices"},
    "host": set(),
    "kubelet": {"devices", "metrics", "answers"},
    "settings": {"devices", "answers", "gpus"},
}
MAY_IMPORT = {SCHEDULER: SCHEDULER_MAY_IMPORT, PLUGIN: PLUGIN_MAY_IMPORT}
PARTED = [(program, path) for program in MAY_IMPORT for path in below(program, ".py")]

MODULES = {module_of(path): path for path in below(PACKAGE, ".py")}
OWN_PROCESS = "nvshare.ctl.own_process"
python_files = pytest.mark.parametrize("path", MODULES.values(), ids=name)


def package_of(path: Path) -> str:
    """The folder of nvshare that a file is in; empty for nvshare's own modules."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


def own_imports(path: Path) -> set[str]:
    """The modules of nvshare that a file imports, also within functions.

    ``from package import module`` counts as the module alone; a package runs its ``__init__`` first, which imports
    nothing of what is below it.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        match node:
            case ast.Import(names=names):
                found.update(alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                for alias in names:
                    member = f"{module}.{alias.name}"
                    found.add(member if member in MODULES else module)
            case _:
                pass
    return found & MODULES.keys()


def reached(roots: set[str]) -> list[Path]:
    """The roots and every module of nvshare that they import, directly or not; paths.py ends the search."""
    found: set[str] = set()
    open_ends = set(roots)
    while open_ends:
        module = open_ends.pop()
        if module not in found:
            found.add(module)
            open_ends |= own_imports(MODULES[module]) - {PATHS}
    return [MODULES[module] for module in sorted(found)]


def tops(path: Path) -> set[str]:
    """The top-level names of all that a file imports."""
    return {imported.split(".")[0] for imported in imports(path)}


def says_pure(path: Path) -> bool:
    """Whether the docstring of a module claims that it is pure."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return "Pure." in text


SAY_PURE = [path for path in MODULES.values() if says_pure(path)]


@pytest.mark.parametrize("path", CORE, ids=name)
def test_core_is_pure(path: Path) -> None:
    """Every module of the scheduler's core imports the core and modules that can neither wait, nor look, nor roll dice.

    Not even nvshare.paths or the protocol.
    """
    assert tops(path) - {"nvshare"} <= CORE_STANDARD_LIBRARY
    assert own_imports(path) <= {module_of(other) for other in CORE}


@pytest.mark.parametrize("path", sorted({*SAY_PURE, *PLUGIN_PURE}), ids=name)
def test_who_says_pure_is_pure(path: Path) -> None:
    """A module whose docstring says "Pure.", and what it imports, does no I/O and knows neither time nor chance.

    Neither does any that answers kubelet, whether it says so or not.
    """
    impure = {name(other): sorted(tops(other) & IMPURE) for other in reached({module_of(path)})}
    assert not {file: found for file, found in impure.items() if found}


def test_somebody_says_pure() -> None:
    """The rule above has something to look at."""
    assert len(SAY_PURE) >= 5


@pytest.mark.parametrize(
    "path",
    [*CORE, *PLUGIN_PURE, *below(PACKAGE / "protocol", ".py"), *below(PACKAGE / "shim", ".py"), PACKAGE / "paths.py"],
    ids=name,
)
def test_event_loop_stays_in_the_shell(path: Path) -> None:
    """What decides, encodes or names things imports neither asyncio nor grpc."""
    assert not tops(path) & EVENT_LOOP


def test_no_circle_of_imports() -> None:
    """No module of nvshare imports itself by way of others, not even within functions."""
    graph = {module: own_imports(path) - {module} for module, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def part_of(module: str, program: Path) -> str:
    """The row of the program's table that a module belongs to; empty for the modules that wire the parts."""
    package = f"nvshare.{program.name}."
    part = module.removeprefix(package).split(".")[0]
    return part if module.startswith(package) and part in MAY_IMPORT[program] else ""


@pytest.mark.parametrize(("program", "path"), PARTED, ids=[name(path) for _, path in PARTED])
def test_imports_within_a_program_run_one_way(program: Path, path: Path) -> None:
    """A folder of a program imports what the table allows it; modules that wire are imported by their kind only."""
    part = part_of(module_of(path), program)
    if not part:
        return
    known = {module for module in own_imports(path) if module.startswith(f"nvshare.{program.name}.")}
    allowed = MAY_IMPORT[program][part] | {part}
    assert not {module for module in known if part_of(module, program) not in allowed}


@pytest.mark.parametrize("program", MAY_IMPORT, ids=name)
def test_the_table_runs_one_way(program: Path) -> None:
    """The table names every folder and existing modules, and has no circle itself."""
    paths = below(program, ".py")
    folders = {path.relative_to(program).parts[0] for path in paths if path.parent != program}
    modules = {path.stem for path in paths if path.parent == program}
    assert folders <= MAY_IMPORT[program].keys() <= folders | modules
    TopologicalSorter(MAY_IMPORT[program]).prepare()


@python_files
def test_programs_are_strangers(path: Path) -> None:
    """The programs and the library never import one another; who is none of them knows none of them.

    The face of the shim is the exception: where the library is and what a process needs to be preloaded with it. And
    ctl runs the demo, and does what the package itself offers to programs that import it.
    """
    own = package_of(path)
    others = {f"nvshare.{other}" for other in STRANGERS if other != own and (own, other) != ("ctl", "demo")}
    known = {
        imported
        for imported in imports(path)
        if any(imported == other or imported.startswith(other + ".") for other in others)
    }
    face = {"nvshare.shim", "nvshare.shim.library_path", "nvshare.shim.preload_environment"}
    if path == PACKAGE / "__init__.py":
        face = {"nvshare.ctl", OWN_PROCESS}
    assert not known - face


@python_files
def test_cffi_stays_in_the_codec(path: Path) -> None:
    """Objects of cffi never leave the codec, and no module loads cffi's parser."""
    loads = {imported for imported in imports(path) if imported.split(".")[0] in ("cffi", "_cffi_backend")}
    assert loads <= ({"_cffi_backend"} if module_of(path) == "nvshare.protocol.layout" else set())
    codec = {"nvshare.protocol." + name for name in ("wire", "frames", "frame_types", "gang", "report")}
    if module_of(path) not in codec:
        assert "nvshare.protocol.layout" not in imports(path)


@python_files
def test_environment_is_read_at_the_door(path: Path) -> None:
    """Only paths.py and the __main__ modules look at the process's environment; the rest is told.

    What sets it for the process that imports the package does, too.
    """
    if path.name == "__main__.py" or module_of(path) in (PATHS, OWN_PROCESS):
        return
    assert not imports(path) & {"os.environ", "os.getenv"}
    text = path.read_text()
    assert "os.environ" not in text
    assert "os.getenv" not in text
