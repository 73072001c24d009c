"""The account and the view on the simulated GPU: what every allocating call charges, and what the program is told."""

from __future__ import annotations

import pytest

from nvshare import paths
from tests.conftest import Libraries
from tests.shim.children import ROOT, Children

MIB = 1 << 20
TOTAL = 16 << 30
RESERVE = 1536 << 20

# What each case of programs/accounting.py changes the footprint by, step by step.
EXPECTED = {
    "cuMemAlloc_v2": [MIB, 0],
    "cuMemAllocPitch_v2": [MIB, 0],
    "cuMemAllocManaged": [MIB, 0],
    "cuArrayCreate_v2": [MIB, 0],
    "cuArray3DCreate_v2": [MIB, 0],
    "cuMemAllocAsync": [MIB, 0],
    "cuMemAllocAsync_ptsz": [MIB, 0],
    "cuMemAllocFromPoolAsync": [MIB, 0],
    "cuMemAllocFromPoolAsync_ptsz": [MIB, 0],
    "freed_plainly": [MIB, 0],
    "captured_free": [MIB, 0],
    "pool_that_keeps": [32 * MIB, 32 * MIB, 0, 0],
    "graph": [32 * MIB, 0],
    "cuMemCreate": [2 * MIB, 0],
    "created_and_mapped": [2 * MIB, 2 * MIB, 0],
    "created_on_the_host": [0, 0],
    "retained": [2 * MIB, 0],
    "two_at_once": [4 * MIB, 0],
    "context": [MIB, 0],
    "context_retained_twice": [MIB, 0],
    "wrong_free": [MIB, 0],
    "refused": [0, 0],
    "on_the_host": [0, 0],
}


@pytest.fixture
def simulated(environment: dict[str, str], libraries: Libraries) -> Children:
    """Processes under the library on a simulated device of 16 GiB, with no scheduler and with managed memory."""
    return Children(
        environment
        | {
            "LD_PRELOAD": str(libraries.shim),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
            paths.SIMGPU_DEVICES: "2x16GiB",
            paths.ON_MISSING: "run",
            paths.MEMORY: "managed",
        }
    )


@pytest.mark.parametrize("case", EXPECTED)
def test_account(simulated: Children, case: str) -> None:
    """Each call charges what it allocates, once it succeeded, and the end of the memory gives it back once."""
    name, changes = simulated.run_python("accounting.py", case).strip().split(": ")
    assert (name, [int(change) for change in changes.split()]) == (case, EXPECTED[case])


def view(children: Children, **variables: str) -> dict[str, int]:
    """What programs/viewing.py saw."""
    output = Children(children.environment | variables).run_python("viewing.py")
    return {name: int(value) for name, value in (line.split() for line in output.splitlines())}


def test_view_of_managed_memory(simulated: Children) -> None:
    """Total is the device's, free is what one process may have less its own, whatever others use."""
    seen = view(simulated)
    assert seen["total"] == seen["device_total"] == TOTAL
    assert seen["free"] == TOTAL - RESERVE
    assert seen["free_after_1_gib"] == TOTAL - RESERVE - (1 << 30)
    assert seen["alloc_too_much"] == 2


def test_view_with_single_oversub(simulated: Children) -> None:
    """A process that may exceed the device sees all of it, and never less than nothing free."""
    seen = view(simulated, NVSHARE_ENABLE_SINGLE_OVERSUB="1")
    assert seen["total"] == seen["device_total"] == TOTAL
    assert seen["free"] == TOTAL
    assert seen["free_after_1_gib"] == TOTAL - (1 << 30)
    assert seen["alloc_too_much"] == 0
    assert seen["free_after_too_much"] == 0


def test_view_of_native_memory(simulated: Children) -> None:
    """Free is the driver's, but never more than the total less the own footprint."""
    seen = view(simulated, NVSHARE_MEMORY="native")
    assert seen["total"] == seen["device_total"] == TOTAL
    assert seen["free"] <= TOTAL
    assert seen["free_after_1_gib"] <= seen["free"] - (1 << 30)
    assert seen["alloc_too_much"] == 2


def test_view_of_memory_that_swaps(simulated: Children) -> None:
    """Without a scheduler it is the driver's view, as nothing is moved."""
    seen = view(simulated, NVSHARE_MEMORY="swap")
    assert seen["total"] == seen["device_total"] == TOTAL
    assert seen["free"] <= TOTAL
    assert seen["free_after_1_gib"] == seen["free"] - (1 << 30)
    assert seen["alloc_too_much"] == 2
    assert seen["free_after_too_much"] == seen["free_after_1_gib"]


@pytest.mark.parametrize("backend", ["managed", "swap", "native"])
def test_pointers_look_like_device_memory(simulated: Children, backend: str) -> None:
    """A program can't tell what cuMemAlloc gave it from plain device memory, at its start or within it."""
    seen = view(simulated, NVSHARE_MEMORY=backend)
    for place in ("start", "middle"):
        assert seen[f"{place}_type"] == 2
        assert seen[f"{place}_managed"] == 0
        assert seen[f"{place}_ordinal"] == 0
        assert seen[f"{place}_host_result"] == 1
        assert seen[f"{place}_many_type"] == 2
        assert seen[f"{place}_many_managed"] == 0
        assert seen[f"{place}_many_host"] == 0
        assert seen[f"{place}_base_offset"] == 0
        assert seen[f"{place}_size"] == 1 << 30


def test_own_managed_memory_stays_so(simulated: Children) -> None:
    """What the program itself asked to be managed is shown as such."""
    assert view(simulated)["own_managed"] == 1
