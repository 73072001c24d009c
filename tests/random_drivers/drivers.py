"""The random drivers of the scheduler's core, and how one is driven with a seed."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import hypothesis.core
from hypothesis import HealthCheck, Phase, settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.stateful import run_state_machine_as_test

from tests.scheduler.core.checked import check_all

CORE = "tests.scheduler.core"
MODULES = {
    "CoreMachine": f"{CORE}.test_properties",
    "SwapMachine": f"{CORE}.memory.test_swap_properties",
    "RequestMachine": f"{CORE}.memory.test_request_properties",
    "LimitMachine": f"{CORE}.memory.test_limit_properties",
    "SleepMachine": f"{CORE}.sleep.test_sleep_properties",
    "SleepingGangMachine": f"{CORE}.sleep.test_gang_properties",
    "TwoGpuMachine": f"{CORE}.sleep.test_two_gpu_properties",
    "GangMachine": f"{CORE}.gangs.test_swapping_properties",
    "WholeMachine": f"{CORE}.test_nobody_waits_for_ever",
    "FullMachine": f"{CORE}.test_full_properties",
    "OperatedMachine": f"{CORE}.test_operated_properties",
    "test_every_program_ends": f"{CORE}.gangs.test_gangs_properties",
}
"""By name: where a driver is. A test brings its own number of examples."""


def drive(name: str, seed: int) -> None:
    """One round in this process, in which no tests run: what fails is raised after its example was printed."""
    # A place where nothing can be: hypothesis goes without its caches.
    set_hypothesis_home_dir(Path(os.devnull) / "hypothesis")
    # Tests take what they do not say themselves from the profile, when they are imported.
    settings.register_profile(
        "random",
        max_examples=100,
        stateful_step_count=50,
        phases=[Phase.generate],
        database=None,
        derandomize=False,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("random")
    check_all()
    driver = getattr(importlib.import_module(MODULES[name]), name)
    hypothesis.core.global_force_seed = seed
    if isinstance(driver, type):
        run_state_machine_as_test(driver, settings=settings.get_profile("random"))
    else:
        driver()
