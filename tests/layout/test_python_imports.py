"""Who may know whom, in Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.layout.tree import (
    PACKAGE,
    at,
    below,
    circle,
    imports,
    module_of,
    modules,
    name,
    nobody,
    own_imports,
    syntax,
    text,
)

SCHEDULER = PACKAGE / "scheduler"
CORE = below(SCHEDULER / "core", ".py")
CORE_STANDARD_LIBRARY = {"__future__", "collections", "dataclasses", "enum", "heapq", "itertools", "typing"}
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
    "some_terms": {"core"},
    "pods": set(),
    "recovery": {"core", "some_terms", "pods"},
    "registered_client": {"core", "pods", "recovery"},
    "reports": {"core", "registered_client"},
    "commands": {"core"},
    "dispatcher": {"core", "pods", "recovery", "registered_client", "reports", "commands"},
    "accounts": {"core", "some_terms", "recovery"},
    "memberships": {"core", "some_terms", "pods", "recovery", "commands", "dispatcher", "accounts"},
    "arenas": {"core", "worker", "registered_client"},
    "swapping": {"core", "recovery", "registered_client", "dispatcher", "arenas"},
    "sleeping": {"core", "pods", "recovery", "registered_client", "dispatcher", "arenas"},
    "gpus": {"core", "worker", "recovery", "dispatcher"},
    "clients": {
        "core",
        "some_terms",
        "worker",
        "pods",
        "recovery",
        "registered_client",
        "commands",
        "dispatcher",
        "memberships",
        "swapping",
        "sleeping",
        "gpus",
    },
    "api": {
        "core",
        "some_terms",
        "pods",
        "recovery",
        "registered_client",
        "commands",
        "dispatcher",
        "accounts",
        "memberships",
        "arenas",
        "sleeping",
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
    "settled": set(),
    "claims": {"devices", "metrics", "answers", "host", "kubelet", "settled"},
    "settings": {"devices", "answers", "gpus"},
}
# What all of the core speaks in.
CORE_WORDS: dict[str, set[str]] = {
    "actions": set(),
    "terms": set(),
    "sleep_events": set(),
    "events": {"terms", "sleep_events"},
    "errors": {"events"},
    "settings": {"events"},
    "snapshot": {"events", "terms"},
    "transitions": {"events"},
}
CORE_MAY_IMPORT: dict[str, set[str]] = {
    **CORE_WORDS,
    "records": {*CORE_WORDS},
    "mix": {*CORE_WORDS, "records"},
    "memory": {*CORE_WORDS, "records"},
    "lock": {*CORE_WORDS, "records", "mix", "memory"},
    "device": {*CORE_WORDS, "records", "memory", "lock"},
    "clients": {"records", "device"},
    "sleep": {*CORE_WORDS, "records", "memory", "device", "clients"},
    "gangs": {*CORE_WORDS, "records", "device", "clients"},
}
MAY_IMPORT = {SCHEDULER: SCHEDULER_MAY_IMPORT, SCHEDULER / "core": CORE_MAY_IMPORT, PLUGIN: PLUGIN_MAY_IMPORT}
MODULES = modules()
OWN_PROCESS = "nvshare.ctl.own_process"


def package_of(path: Path) -> str:
    """The folder of nvshare that a file is in; empty for nvshare's own modules."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


def reached(root: str) -> list[Path]:
    """A module and every module of nvshare that it imports, directly or not; paths.py ends the search."""
    found: set[str] = set()
    open_ends = {root}
    while open_ends:
        module = open_ends.pop()
        if module not in found:
            found.add(module)
            open_ends |= own_imports(MODULES[module]).keys() - {PATHS}
    return [MODULES[module] for module in sorted(found)]


def tops(path: Path) -> dict[str, int]:
    """The top-level names of all that a file imports, with the lines."""
    return {imported.split(".")[0]: line for imported, line in imports(path).items()}


def says_pure(path: Path) -> bool:
    """Whether the docstring of a module claims that it is pure."""
    return "Pure." in (ast.get_docstring(syntax(path)) or "")


SAY_PURE = [path for path in MODULES.values() if says_pure(path)]


def test_core_is_pure() -> None:
    """Every module of the scheduler's core imports the core and modules that can neither wait, nor look, nor roll dice.

    Not even nvshare.paths or the protocol.
    """
    core = {module_of(path) for path in CORE}

    def strange(path: Path) -> dict[str, int]:
        foreign = {top: line for top, line in tops(path).items() if top not in {"nvshare", *CORE_STANDARD_LIBRARY}}
        return foreign | {module: line for module, line in own_imports(path).items() if module not in core}

    nobody(f"{at(path, line)}: {module}" for path in CORE for module, line in strange(path).items())


def test_who_says_pure_is_pure() -> None:
    """A module whose docstring says "Pure.", and what it imports, does no I/O and knows neither time nor chance.

    Neither does any that answers kubelet, whether it says so or not.
    """
    nobody(
        f"{name(path)} is not pure: {at(other, line)}: {top}"
        for path in sorted({*SAY_PURE, *PLUGIN_PURE})
        for other in reached(module_of(path))
        for top, line in tops(other).items()
        if top in IMPURE
    )


def test_somebody_says_pure() -> None:
    """The rule above has something to look at."""
    assert len(SAY_PURE) >= 5


def test_event_loop_stays_in_the_shell() -> None:
    """What decides, encodes or names things imports neither asyncio nor grpc."""
    folders = [*below(PACKAGE / "protocol", ".py"), *below(PACKAGE / "shim", ".py"), PACKAGE / "paths.py"]
    nobody(
        f"{at(path, line)}: {top}"
        for path in (*CORE, *PLUGIN_PURE, *folders)
        for top, line in tops(path).items()
        if top in EVENT_LOOP
    )


def test_no_circle_of_imports() -> None:
    """No module of nvshare imports itself by way of others, not even within functions."""
    nobody(circle({module: set(own_imports(path)) - {module} for module, path in MODULES.items()}))


def prefix(program: Path) -> str:
    """How the names of a program's modules begin."""
    return f"{module_of(program / '__init__.py')}."


def part_of(module: str, program: Path) -> str:
    """The row of the program's table that a module belongs to; empty for the modules that wire the parts."""
    package = prefix(program)
    part = module.removeprefix(package).split(".")[0]
    return part if module.startswith(package) and part in MAY_IMPORT[program] else ""


def strange_parts(program: Path, path: Path) -> Iterator[str]:
    """What a file of a program imports of it that its part may not know."""
    part = part_of(module_of(path), program)
    for module, line in own_imports(path).items() if part else ():
        allowed = MAY_IMPORT[program][part] | {part}
        if module.startswith(prefix(program)) and part_of(module, program) not in allowed:
            yield f"{at(path, line)}: {part} may not know {module}"


def test_imports_within_a_program_run_one_way() -> None:
    """A folder of a program imports what the table allows it; modules that wire are imported by their kind only."""
    files = ((program, path) for program in MAY_IMPORT for path in below(program, ".py"))
    nobody(stranger for program, path in files for stranger in strange_parts(program, path))


def test_the_table_runs_one_way() -> None:
    """The table names every folder and existing modules, and has no circle itself."""
    found: list[str] = []
    for program, table in MAY_IMPORT.items():
        paths = below(program, ".py")
        folders = {path.relative_to(program).parts[0] for path in paths if path.parent != program}
        modules = {path.stem for path in paths if path.parent == program}
        found += [f"{name(program)}/{folder}/ is not in the table" for folder in sorted(folders - table.keys())]
        found += [f"{name(program)}/{part} is not there" for part in sorted(table.keys() - folders - modules)]
        found += circle(table)
    nobody(found)


def strangers(path: Path) -> Iterator[str]:
    """What a file imports of programs that it may not know."""
    own = package_of(path)
    others = [f"nvshare.{other}" for other in STRANGERS if other != own and (own, other) != ("ctl", "demo")]
    face = {"nvshare.shim", "nvshare.shim.library_path", "nvshare.shim.preload_environment"}
    if path == PACKAGE / "__init__.py":
        face = {"nvshare.ctl", OWN_PROCESS}
    for imported, line in imports(path).items():
        if imported not in face and any(f"{imported}.".startswith(f"{other}.") for other in others):
            yield f"{at(path, line)}: {imported}"


def test_programs_are_strangers() -> None:
    """The programs and the library never import one another; who is none of them knows none of them.

    The face of the shim is the exception: where the library is and what a process needs to be preloaded with it. And
    ctl runs the demo, and does what the package itself offers to programs that import it.
    """
    nobody(stranger for path in MODULES.values() for stranger in strangers(path))


def test_cffi_stays_in_the_codec() -> None:
    """Objects of cffi never leave the codec, and no module loads cffi's parser."""
    layout = PACKAGE / "protocol" / "layout.py"
    codec = {
        f"nvshare.protocol.{module}"
        for module in ("wire", "frames", "sleep_frames", "frame_types", "gang", "catalogue", "report")
    }

    def is_wrong(path: Path, imported: str) -> bool:
        if imported == module_of(layout):
            return module_of(path) not in codec
        top = imported.split(".")[0]
        return top == "cffi" or (top == "_cffi_backend" and path != layout)

    nobody(
        f"{at(path, line)}: {imported}"
        for path in (*MODULES.values(), layout)
        for imported, line in imports(path).items()
        if is_wrong(path, imported)
    )


def test_environment_is_read_at_the_door() -> None:
    """Only paths.py and the __main__ modules look at the process's environment; the rest is told.

    What sets it for the process that imports the package does, too.
    """
    doors = {MODULES[PATHS], MODULES[OWN_PROCESS]}
    pattern = re.compile(r"os\.(?:environ|getenv)|from os import .*\b(?:environ|getenv)\b")
    nobody(
        f"{at(path, number)}: {match[0]}"
        for path in MODULES.values()
        if path.name != "__main__.py" and path not in doors
        for number, line in enumerate(text(path).splitlines(), 1)
        if (match := pattern.search(line))
    )
