"""The gate, captures and contexts in fresh processes: what waits, what does not, and what a drain waits for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare import paths
from tests.conftest import Libraries
from tests.shim import spy_driver
from tests.shim.children import ROOT, Children, cases
from tests.shim.entrypoints import entry_points, is_gated


def test_every_gated_symbol_waits_for_the_lock(children: Children) -> None:
    """Each symbol that submits work does not reach the driver before the grant, and does after it."""
    gated = [point for point in entry_points() if is_gated(point)]
    assert int(children.run_python("every_gate.py")) == len(gated) > 160


@pytest.mark.parametrize("case", cases("gate_cases.py"))
def test_gate(children: Children, case: str) -> None:
    """What the docstring of the case claims."""
    children.run_python("gate_cases.py", case)


@pytest.mark.parametrize("backend", ["managed", "native"])
def test_copies_between_simulated_devices(libraries: Libraries, environment: dict[str, str], backend: str) -> None:
    """What the docstring of the program claims, for memory of each backend."""
    own = {"LD_PRELOAD": str(libraries.shim), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", paths.MEMORY: backend}
    Children(environment | own).run_python("unified_copies.py")


@pytest.mark.parametrize("case", cases("capture_cases.py"))
def test_capture(children: Children, case: str) -> None:
    """What the docstring of the case claims."""
    children.run_python("capture_cases.py", case)


@pytest.mark.parametrize("case", cases("context_cases.py"))
def test_context(children: Children, case: str) -> None:
    """What the docstring of the case claims."""
    children.run_python("context_cases.py", case)


@pytest.mark.parametrize("case", cases("context_races.py"))
def test_ends_of_contexts(children: Children, compile_c: Callable[..., Path], case: str) -> None:
    """What the docstring of the case claims."""
    deny = compile_c("programs/deny_membarrier.c", "deny_membarrier.so", "-shared", "-fPIC")
    children.run_python("context_races.py", case, str(deny))


@pytest.mark.parametrize("case", cases("delay_cases.py"))
def test_delayed(children: Children, compile_c: Callable[..., Path], case: str) -> None:
    """What the docstring of the case claims."""
    delays = compile_c("programs/delays.c", "delays.so", "-shared", "-fPIC", "-pthread", "-ldl")
    preloaded = Children(children.environment | {"LD_PRELOAD": f"{delays}:{children.environment['LD_PRELOAD']}"})
    preloaded.run_python("delay_cases.py", case, str(delays))


@pytest.fixture
def compile_library(compile_c: Callable[..., Path], spy: Path) -> Callable[[str], Path]:
    """Compiles one of ``programs/`` as a library that uses the counting driver."""
    flags = ("-shared", "-fPIC", "-pthread", str(spy / "libcuda.so.1"))
    return lambda name: compile_c(f"programs/{name}.c", f"{name}.so", *flags)


@pytest.mark.parametrize("case", cases("cancel_cases.py"))
def test_cancel(children: Children, compile_library: Callable[[str], Path], case: str) -> None:
    """What the docstring of the case claims."""
    children.run_python("cancel_cases.py", case, str(compile_library("cancelled_threads")))


@pytest.mark.parametrize("threads", [1, 4, 24])
def test_nothing_is_submitted_outside_a_turn(
    children: Children, compile_library: Callable[[str], Path], threads: int
) -> None:
    """However many threads submit, and come and go, while the lock is given and taken back at random."""
    submitting = str(compile_library("submitting_threads"))
    assert int(children.run_python("stress.py", submitting, str(threads), "100", "0", timeout=120)) >= 100


@pytest.mark.parametrize("threads", [1, 24])
def test_nothing_is_submitted_after_the_last_step(
    children: Children, compile_library: Callable[[str], Path], threads: int
) -> None:
    """The same where every drain lets submissions through, one at a time."""
    submitting = str(compile_library("submitting_threads"))
    assert int(children.run_python("stress.py", submitting, str(threads), "20", "1", timeout=120)) >= 20


def test_driver_without_events_of_a_context(children: Children, tmp_path: Path, tool: Callable[[str], str]) -> None:
    """A driver older than 555: the worker synchronizes, for a drain as for a look."""
    old = spy_driver.build(tool("gcc"), tmp_path / "old", without={"cuCtxRecordEvent"})
    environment = children.environment | {"LD_LIBRARY_PATH": str(old.parent)}
    Children(environment).run_python("gate_cases.py", "gives_way_by_itself")


@pytest.mark.parametrize("denied", [[], ["deny_membarrier"]], ids=["membarrier", "fences"])
def test_mark_that_is_seen_late(children: Children, compile_library: Callable[[str], Path], denied: list[str]) -> None:
    """A call whose processor shows its mark later than it looked at the gate is waited for.

    membarrier sees to that, or a fence where there is none. Without either, and with two processors, some percent of
    the turns go wrong; with one processor none does.
    """
    submitting, scheduling = (str(compile_library(name)) for name in ("submitting_threads", "quick_turns"))
    others = [str(compile_library(name)) for name in denied]
    children.run_python("barrier.py", submitting, scheduling, "4000", *others, timeout=120)
