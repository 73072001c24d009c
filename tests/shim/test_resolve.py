"""Every way to the driver's functions leads to the hooks, and to nothing that the driver lacks."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Libraries
from tests.shim import spy_driver
from tests.shim.children import Children
from tests.shim.entrypoints import entry_points, table

HOOKED = [row.symbol for row in table()]
UNKNOWN = "cuUnheardOf"
"""A function of the counting driver that is in no list."""
MISSING = ["cuMemcpyWithAttributesAsync", "cuMemcpy3DWithAttributesAsync", "cuCtxCreate_v4"]
SHIM, DRIVER = "libnvshare.so", "libcuda.so.1"


@pytest.fixture
def routes(compile_c: Callable[..., Path]) -> Path:
    """The program that says where a name leads."""
    return compile_c("programs/routes.c", "routes", "-ldl")


@pytest.fixture
def older(children: Children, tmp_path: Path, tool: Callable[[str], str]) -> Children:
    """Processes whose driver lacks some symbols."""
    folder = spy_driver.build(tool("gcc"), tmp_path / "older", MISSING).parent
    return Children(children.environment | {"LD_LIBRARY_PATH": str(folder)})


def lines_of(output: str) -> dict[str, str]:
    """First word to second word of every line."""
    return {line.split()[0]: line.split()[1] for line in output.splitlines()}


@pytest.mark.parametrize("route", ["handle", "default", "next"])
def test_names_lead_to_hooks(children: Children, routes: Path, route: str) -> None:
    """dlsym, from whatever handle, gives the hook of every hooked name and the driver's own function of others."""
    expected = dict.fromkeys(HOOKED, SHIM) | {UNKNOWN: DRIVER}
    assert lines_of(children.run(routes, route, *expected)) == expected


@pytest.mark.parametrize("route", ["handle", "default", "next"])
def test_what_the_driver_lacks_is_not_found(older: Children, routes: Path, route: str) -> None:
    """A hooked name that the driver lacks gives NULL and an error message, as without the library."""
    output = older.run(routes, route, *MISSING)
    assert lines_of(output) == dict.fromkeys(MISSING, "none")
    assert "no error message" not in output


def test_without_a_driver_nothing_is_found(children: Children, routes: Path) -> None:
    """A program that asks for the driver's functions before it loads a driver finds none."""
    assert lines_of(children.run(routes, "absent", *HOOKED)) == dict.fromkeys(HOOKED, "none")


@pytest.mark.parametrize("route", ["v1", "v2", "thread"])
def test_get_proc_address_chooses_like_the_driver(
    children: Children, bare_children: Children, routes: Path, route: str
) -> None:
    """The driver decides which version and form a name means; the answer is the hook of just that one."""
    names = sorted({point.base for point in entry_points()})
    with_library = symbols_of(children.run(routes, route, *names))
    without = symbols_of(bare_children.run(routes, route, *names))
    assert {name: symbol for name, (_, symbol) in with_library.items()} == {
        name: symbol for name, (_, symbol) in without.items()
    }
    hooked = {name for name, (_, symbol) in without.items() if symbol in HOOKED}
    assert {name for name, (file, _) in with_library.items() if file == SHIM} == hooked


def symbols_of(output: str) -> dict[str, tuple[str, str]]:
    """The asked name to the object and the exported symbol that it led to."""
    return {name: (file, symbol) for name, file, symbol in (line.split() for line in output.splitlines())}


def test_direct_linking(older: Children, compile_c: Callable[..., Path], spy: Path) -> None:
    """A program linked with the driver calls the hooks; one whose function the driver lacks answers "not found"."""
    program = compile_c("programs/routes.c", "linked", "-DLINKED", str(spy / DRIVER), "-ldl")
    output = older.run(program, "handle")
    assert output.splitlines() == [f"linked {SHIM} cuMemcpyHtoD_v2", "call 500"]


@pytest.fixture
def opener(compile_c: Callable[..., Path]) -> Path:
    """The program that opens a plugin and says where its names lead."""
    return compile_c("programs/opener.c", "opener", "-rdynamic", "-ldl")


@pytest.fixture
def plugin(compile_c: Callable[..., Path], spy: Path) -> Callable[..., Path]:
    """Compiles a plugin, linked with the driver or not."""

    def compile_plugin(*flags: str, linked: bool) -> Path:
        driver = ["-DLINKED", str(spy / DRIVER)] if linked else []
        return compile_c("programs/plugin.c", "plugin.so", "-shared", "-fPIC", *driver, "-ldl", *flags)

    return compile_plugin


ROUTES_OF_PLUGIN = ["call", "address", "data", "open"]


@pytest.mark.parametrize("binding", ["now", "lazy"])
@pytest.mark.parametrize("order", ["", "driver first", "gives its function"])
def test_deep_binding(children: Children, opener: Path, plugin: Callable[..., Path], binding: str, order: str) -> None:
    """A plugin that is opened with RTLD_DEEPBIND and linked with the driver reaches the hooks by every route."""
    path = plugin("-Wl,-z,relro", f"-Wl,-z,{binding}", linked=True)
    how = "d" + binding[0] + {"": "", "driver first": "f", "gives its function": "g"}[order]
    output = children.run(opener, how, path, *ROUTES_OF_PLUGIN).splitlines()
    assert output == [SHIM] * len(ROUTES_OF_PLUGIN)


def test_deep_binding_of_a_runtime(children: Children, opener: Path, plugin: Callable[..., Path]) -> None:
    """One that opens the driver by itself, as the CUDA runtime does, looks its names up in the driver's handle."""
    assert children.run(opener, "dn", plugin(linked=False), "open").splitlines() == [SHIM]


def test_deep_binding_keeps_its_meaning(
    children: Children, bare_children: Children, opener: Path, plugin: Callable[..., Path]
) -> None:
    """A plugin opened with RTLD_DEEPBIND still finds its own names before the program's, and otherwise after."""
    path = plugin(linked=False)
    for how, expected in (("dn", path.name), ("n", opener.name)):
        assert children.run(opener, how, path, "own") == bare_children.run(opener, how, path, "own") == expected + "\n"


def test_a_thread_that_comes_late(
    children: Children, compile_c: Callable[..., Path], plugin: Callable[..., Path]
) -> None:
    """One that reads the driver's symbols when another one has just changed them takes no hooks for functions."""
    program = compile_c("programs/late_thread.c", "late_thread", "-rdynamic", "-pthread", "-ldl")
    assert children.run(program, plugin(linked=False)) == f"{SHIM}\nanswered\n"


@pytest.mark.parametrize("how", ["n", "dn", "mn"])
def test_files_are_found_as_the_caller_finds_them(
    children: Children, compile_c: Callable[..., Path], plugin: Callable[..., Path], how: str
) -> None:
    """A plugin without a folder in its name is looked for in the RUNPATH of the object that opens it."""
    path = plugin(linked=False)
    program = compile_c(
        "programs/opener.c", "with_runpath", "-rdynamic", "-ldl", f"-Wl,--enable-new-dtags,-rpath,{path.parent}"
    )
    assert children.run(program, how, path.name, "own").strip() in (path.name, program.name)


def test_another_namespace_is_told(children: Children, opener: Path, plugin: Callable[..., Path]) -> None:
    """A driver that dlmopen brought can't be gated; that is said on stderr, once, and nothing before there is one."""
    command = [opener, "mn", plugin(linked=False), "own", "open", "own"]
    environment = children.environment
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines() == ["plugin.so", DRIVER, "plugin.so"]
    assert result.stderr.count("a second libcuda was loaded by dlmopen") == len(result.stderr.splitlines()) == 1
    quiet = subprocess.run(command[:4], env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert (quiet.stdout, quiet.stderr) == ("plugin.so\n", "")


def test_a_program_with_a_dlsym_of_its_own(children: Children, compile_c: Callable[..., Path]) -> None:
    """It finds the real one by dlvsym, and reaches the hooks through ours; its own is called as ever."""
    version = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}[platform.machine()]
    program = compile_c("programs/own_dlsym.c", "own_dlsym", "-rdynamic", f'-DVERSION="{version}"', "-ldl")
    assert children.run(program) == f"{SHIM} 1\n"


@pytest.mark.parametrize("optimisation", ["-O0", "-O2"])
@pytest.mark.parametrize("first", [True, False])
def test_another_preloaded_library(
    children: Children,
    libraries: Libraries,
    compile_c: Callable[..., Path],
    spy: Path,
    optimisation: str,
    first: bool,
) -> None:
    """A library that interposes by RTLD_NEXT reaches the hook from both sides, and the driver once."""
    interposer = compile_c("programs/interposer.c", "interposer.so", "-shared", "-fPIC", optimisation, "-ldl")
    program = compile_c("programs/interposed.c", "interposed", str(spy / DRIVER), "-ldl")
    order = [interposer, libraries.shim] if first else [libraries.shim, interposer]
    preloaded = replace(children, environment=children.environment | {"LD_PRELOAD": ":".join(map(str, order))})
    output = preloaded.run(program).splitlines()
    assert output == [f"next {SHIM}", "other libc", *(["interposed"] if first else []), "result 0", "entered 1"]


def test_requests_of_the_runtime(children: Children, bare_children: Children, compile_c: Callable[..., Path]) -> None:
    """What ten CUDA runtimes asked for is answered as without the library, but by hooks where there are some."""
    program = compile_c("programs/requests.c", "requests", "-ldl")
    logs = sorted((Path(__file__).parent / "cudart_requests").glob("log.*"))
    assert len(logs) == 10
    bare = [line.split() for line in bare_children.run(program, *logs).splitlines()]
    ours = [line.split() for line in children.run(program, *logs).splitlines()]
    expected = [[*answer, SHIM if symbol in HOOKED else file, symbol] for *answer, file, symbol in bare]
    assert ours == expected
    assert sum(file == SHIM for _, _, file, _ in ours) > 1000
