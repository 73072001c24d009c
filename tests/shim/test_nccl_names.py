"""Where NCCL's names lead: to nothing that is not there without the library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shim import entrypoints
from tests.shim.children import Children
from tests.shim.test_resolve import lines_of

NAMES = entrypoints.nccl_calls()
SHIM, NCCL = "libnvshare.so", "libnccl.so.2"
NOT_HOOKED = ["ncclCommCuDevice", "nccl_saw"]


@pytest.fixture
def routes(compile_c: Callable[..., Path]) -> Path:
    """The program that says where a name leads; it is linked with nothing."""
    return compile_c("programs/routes.c", "routes", "-ldl")


@pytest.fixture
def library(compile_c: Callable[..., Path]) -> Path:
    """An NCCL."""
    return compile_c("programs/nccl.c", NCCL, "-shared", "-fPIC", f"-Wl,-soname,{NCCL}")


@pytest.mark.parametrize("route", ["handle", "default", "next"])
def test_without_nccl_nothing_is_found(children: Children, routes: Path, route: str) -> None:
    """A program without NCCL finds none of its names by dlsym, and gets an error message."""
    output = children.run(routes, route, *NAMES, *NOT_HOOKED)
    assert lines_of(output) == dict.fromkeys([*NAMES, *NOT_HOOKED], "none")
    assert "no error message" not in output


@pytest.mark.parametrize("route", ["default", "next"])
def test_nccl_that_was_linked(children: Children, compile_c: Callable[..., Path], library: Path, route: str) -> None:
    """Where NCCL is linked with the program its names lead to us, and others to NCCL."""
    linked = ["-Wl,--no-as-needed", str(library), "-ldl", f"-Wl,-rpath,{library.parent}"]
    program = compile_c("programs/routes.c", "with_nccl", *linked)
    expected = dict.fromkeys(NAMES, SHIM) | dict.fromkeys(NOT_HOOKED, NCCL)
    assert lines_of(children.run(program, route, *expected)) == expected


@pytest.mark.parametrize("route", ["default", "next"])
def test_nccl_that_others_opened(
    children: Children, bare_children: Children, compile_c: Callable[..., Path], library: Path, route: str
) -> None:
    """NCCL that something opened for itself alone is found by no other name than without the library."""
    opened = ["-DOPENED=" + f'"{library}"']
    program = compile_c("programs/routes.c", "beside_nccl", *opened, "-ldl")
    bare = lines_of(bare_children.run(program, route, *NAMES))
    assert lines_of(children.run(program, route, *NAMES)) == bare == dict.fromkeys(NAMES, "none")


def test_a_weak_reference_without_nccl(
    children: Children, bare_children: Children, compile_c: Callable[..., Path]
) -> None:
    """It leads to us, which can't be helped; the call answers ncclSystemError and does nothing."""
    program = compile_c("programs/weak_nccl.c", "weak", "-Wl,-z,dynamic-undefined-weak")
    assert bare_children.run(program) == "none\n"
    assert children.run(program) == "2\n"
