"""``nvshare-ctl run --memory-limit`` and the like: what the command's environment says."""

from __future__ import annotations

import re

import pytest

from nvshare import paths
from nvshare.paths import RunDir
from tests.ctl.program import COMMAND, ctl

pytestmark = pytest.mark.usefixtures("libraries", "accepting")

RIGHT = {
    paths.WEIGHT: "2",
    paths.PRIORITY: "low",
    paths.COMPUTE_LIMIT: "5",
    paths.MEMORY_LIMIT: "2G",
    paths.MEMORY_REQUEST: "1G",
    paths.WHEN_FULL: "wait",
    paths.SLEEP: "idle",
    paths.CONTAINER: "train",
    paths.GANG: "job",
}
"""For each variable a text that means something."""
TERMS = (
    *(paths.WEIGHT, paths.PRIORITY, paths.COMPUTE_LIMIT, paths.MEMORY_LIMIT, paths.MEMORY_REQUEST),
    *(paths.WHEN_FULL, paths.SLEEP),
)


def environment_of(run_dir: RunDir, *options: str, **variables: str) -> dict[str, str]:
    """What a command finds that was run so."""
    done = ctl(run_dir, "run", *options, "--", "env", **variables)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def test_each_option_is_a_variable(run_dir: RunDir) -> None:
    """As it was written; and the option counts before the environment."""
    found = environment_of(
        run_dir,
        *("--weight", "2.5", "--priority", "low", "--compute-limit", "30%", "--memory-limit", "2G"),
        *("--memory-request", "512MiB", "--when-full", "wait", "--sleep", "idle"),
        *("--name", "train", "--gang", "job:4"),
        **{paths.WEIGHT: "7", paths.CONTAINER: "other"},
    )
    assert [found[name] for name in TERMS] == ["2.5", "low", "30%", "2G", "512MiB", "wait", "idle"]
    assert (found[paths.CONTAINER], found[paths.GANG]) == ("train", "job:4")


def test_what_is_not_said_stays(run_dir: RunDir) -> None:
    """Without options the environment is as it was."""
    found = environment_of(run_dir, **{paths.MEMORY_LIMIT: "3G", paths.CONTAINER: "mine"})
    assert [name for name in TERMS if name in found] == [paths.MEMORY_LIMIT]
    assert (found[paths.MEMORY_LIMIT], found[paths.CONTAINER]) == ("3G", "mine")


def test_all_that_one_run_starts_counts_together(run_dir: RunDir) -> None:
    """Each run has a name of its own, which a run inside of it keeps."""
    script = f"echo ${paths.CONTAINER}; {' '.join(COMMAND)} run -- sh -c 'echo ${paths.CONTAINER}'"
    names = [ctl(run_dir, "run", "--", "sh", "-c", script).stdout.split() for _ in range(2)]
    assert all(outer == inner for outer, inner in names)
    assert names[0] != names[1]
    assert re.fullmatch("sh-[0-9a-f]{8}", names[0][0])


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--weight", "0", "'0' is no weight; a number from 0.01 to 1000 is"),
        ("--priority", "urgent", "'urgent' is no priority; low, normal, high are"),
        ("--compute-limit", "0", "'0' is no percentage from 0.1 to 100"),
        ("--memory-limit", "2gb", "'2gb' is no size"),
        ("--memory-limit", "20", "'20' is 20 bytes, too small for anything; 20GiB?"),
        ("--memory-request", "-1", "'-1' is no size"),
        ("--when-full", "hope", "'hope' is none of wait, refuse"),
        ("--sleep", "always", "'always' is none of never, pressure, idle"),
        ("--name", "a b", "'a b' is no name"),
        ("--gang", "job:1", "'job:1' is neither NAME nor NAME:SIZE with 2 to 64 processes"),
        ("--gang", "job:65", "'job:65' is neither"),
        ("--gang", "job:x", "'job:x' is neither"),
        ("--gang", ":4", "':4' is neither"),
        ("--gang", "a b", "'a b' is neither NAME nor NAME:SIZE with 2 to 64 processes; a NAME is made of visible"),
    ],
)
def test_usage(run_dir: RunDir, option: str, value: str, said: str) -> None:
    """A wrong value names itself and what is allowed, and nothing is run."""
    done = ctl(run_dir, "run", option, value, "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("limit_by", ["option", "environment"])
def test_a_request_above_the_limit(run_dir: RunDir, limit_by: str) -> None:
    """Whoever says both is told so, and nothing is run; as much as the limit is no contradiction."""
    options = ["--memory-limit", "1G"] if limit_by == "option" else []
    variables = {paths.MEMORY_LIMIT: "1G"} if limit_by == "environment" else {}
    done = ctl(run_dir, "run", *options, "--memory-request", "2G", "--", "echo", "ran", **variables)
    assert (done.returncode, done.stdout) == (2, "")
    said = " ".join(done.stderr.replace("│", " ").split())
    assert "--memory-request: a memory request of 2G is above the memory limit of 1G" in said
    done = ctl(run_dir, "run", *options, "--memory-request", "1000M", "--", "echo", "ran", **variables)
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_a_request_of_the_environment(run_dir: RunDir) -> None:
    """What was not said by an option is named by its variable."""
    done = ctl(run_dir, "run", "--memory-limit", "1G", "--", "echo", "ran", **{paths.MEMORY_REQUEST: "2G"})
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Invalid value for {paths.MEMORY_REQUEST}: a memory request of 2G" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (paths.MEMORY_LIMIT, "much", "'much' is no size; 8Gi or 8GiB"),
        (paths.MEMORY_LIMIT, "20", "'20' is 20 bytes, too small for anything; 20GiB?"),
        (paths.COMPUTE_LIMIT, "half", "'half' is no percentage"),
        (paths.WEIGHT, "heavy", "'heavy' is no weight; a number from 0.01 to 1000 is"),
        (paths.PRIORITY, "urgent", "'urgent' is no priority; low, normal, high are"),
        (paths.MEMORY_REQUEST, "much", "'much' is no size; 8Gi or 8GiB"),
        (paths.WHEN_FULL, "hope", "'hope' is none of wait, refuse"),
        (paths.SLEEP, "always", "'always' is none of never, pressure, idle"),
        (paths.CONTAINER, "a b", "'a b' is no name"),
        (paths.GANG, "job:1", "'job:1' is neither NAME nor NAME:SIZE"),
    ],
)
def test_a_variable_that_means_nothing(run_dir: RunDir, name: str, value: str, said: str) -> None:
    """Nothing is run, since it would run as nobody wanted; the text names the variable and the word."""
    done = ctl(run_dir, "run", "--", "echo", "ran", **{name: value})
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Invalid value for {name}: {said}" in " ".join(done.stderr.replace("│", " ").split())
    option = {paths.CONTAINER: "--name"}.get(name, f"--{name.removeprefix('NVSHARE_').lower().replace('_', '-')}")
    done = ctl(run_dir, "run", option, RIGHT[name], "--", "echo", "ran", **{name: value})
    assert (done.returncode, done.stdout) == (0, "ran\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (paths.MEMORY, "'here' is none of swap, managed, native"),
        (paths.ON_MISSING, "'here' is none of wait, run, fail"),
        (paths.SINGLE_OVERSUB, "'here' is not one of 0, false, no, off, 1, true, yes, on"),
        (paths.DEBUG, "'here' is not one of 0, false, no, off, 1, true, yes, on"),
    ],
)
def test_a_variable_without_an_option(run_dir: RunDir, name: str, said: str) -> None:
    """As those that have one. What is empty is not set."""
    done = ctl(run_dir, "run", "--", "echo", "ran", **{name: "here"})
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Invalid value for {name}: {said}" in " ".join(done.stderr.replace("│", " ").split())
    done = ctl(run_dir, "run", "--", "echo", "ran", **{name: ""})
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_doctor_refuses_it_too(run_dir: RunDir) -> None:
    """It runs the command as run does; the machine it looks at all the same."""
    done = ctl(run_dir, "doctor", "--", "echo", "ran", **{paths.WEIGHT: "heavy"})
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Invalid value for {paths.WEIGHT}: 'heavy' is no weight" in " ".join(done.stderr.replace("│", " ").split())
    assert "Invalid value" not in ctl(run_dir, "doctor", **{paths.WEIGHT: "heavy"}).stderr
