"""What annotations mean, and what is said of wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare import terms_texts
from nvshare.nodeagent.annotations import Problem, Wishes, wishes_of
from nvshare.terms_texts import Terms

GIB = 1 << 30
CONTAINERS = ("main", "side")
UNKNOWN = (
    "nvshare knows no such annotation; nvshare.com/NAME and nvshare.com/container.CONTAINER.NAME with one of these "
    "names are: weight, priority, compute-limit, memory-limit, memory-request, when-full, sleep"
)


def of_pod(name: str, value: str) -> Wishes:
    """With one annotation of nvshare's."""
    return wishes_of({f"nvshare.com/{name}": value}, CONTAINERS)


@pytest.mark.parametrize(
    ("name", "value", "terms"),
    [
        ("weight", "2.5", Terms(weight=2.5)),
        ("priority", "high", Terms(priority="high")),
        ("compute-limit", "30%", Terms(compute_limit=0.3)),
        ("compute-limit", "30", Terms(compute_limit=0.3)),
        ("memory-limit", "4Gi", Terms(memory_limit_bytes=4 * GIB)),
        ("memory-request", " 512Mi\n", Terms(memory_request_bytes=GIB // 2)),
        ("when-full", "refuse", Terms(when_full="refuse")),
        ("sleep", "idle", Terms(sleep="idle")),
    ],
)
def test_of_the_pod(name: str, value: str, terms: Terms) -> None:
    """It is for every container, and for processes of which the container is not known."""
    assert of_pod(name, value) == Wishes({"": terms, "main": terms, "side": terms}, ())


def test_of_a_container() -> None:
    """It counts before the pod's, term by term."""
    annotations = {
        "nvshare.com/weight": "2",
        "nvshare.com/memory-limit": "2Gi",
        "nvshare.com/container.main.weight": "3",
        "nvshare.com/container.main.compute-limit": "50",
    }
    assert wishes_of(annotations, CONTAINERS).terms == {
        "": Terms(weight=2.0, memory_limit_bytes=2 * GIB),
        "main": Terms(weight=3.0, memory_limit_bytes=2 * GIB, compute_limit=0.5),
        "side": Terms(weight=2.0, memory_limit_bytes=2 * GIB),
    }


def test_the_alias_comes_last() -> None:
    """NVIDIA's keys count where nvshare's say nothing."""
    annotations = {
        "nvidia.com/container.main.gpu-memory.limit": "8Gi",
        "nvidia.com/container.main.gpu-memory.request": "1Gi",
        "nvidia.com/container.side.gpu-memory.limit": "8Gi",
        "nvshare.com/container.side.memory-limit": "6Gi",
    }
    found = wishes_of(annotations, CONTAINERS)
    assert found == Wishes(
        {
            "main": Terms(memory_limit_bytes=8 * GIB, memory_request_bytes=GIB),
            "side": Terms(memory_limit_bytes=6 * GIB),
        },
        (),
    )
    annotations["nvshare.com/memory-limit"] = "4Gi"
    assert wishes_of(annotations, CONTAINERS).terms["main"].memory_limit_bytes == 4 * GIB


def test_what_is_not_ours() -> None:
    """Other annotations are nobody's business here, NVIDIA's others among them."""
    others = {"example.com/weight": "heavy", "nvidia.com/container.main.x": "1", "nvidia.com/gpu": "1", "weight": "x"}
    assert wishes_of(others, CONTAINERS) == Wishes({}, ())


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("nvshare.com/weight", "heavy", "'heavy' is no weight; a number from 0.01 to 1000 is"),
        ("nvshare.com/weight", "", "'' is no weight; a number from 0.01 to 1000 is"),
        ("nvshare.com/priority", "High", "'High' is no priority; low, normal, high are"),
        ("nvshare.com/compute-limit", "0", "'0' is no percentage from 0.1 to 100, such as 30 or 30%"),
        (
            "nvshare.com/memory-limit",
            "much",
            "'much' is no size; 8Gi or 8GiB (powers of 1024), 8G or 8GB (powers of 1000) and a number of bytes are",
        ),
        ("nvshare.com/container.main.weight", "-1", "'-1' is no weight; a number from 0.01 to 1000 is"),
        ("nvshare.com/colour", "red", UNKNOWN),
        ("nvshare.com/container.main.colour", "red", UNKNOWN),
        ("nvshare.com/container.main", "red", UNKNOWN),
        ("nvshare.com/container.mian.weight", "2", "the pod has no container 'mian'; it has main, side"),
        ("nvidia.com/container.mian.gpu-memory.limit", "2Gi", "the pod has no container 'mian'; it has main, side"),
        ("nvidia.com/container.main.gpu-memory.limit", "0", "'0' is nothing; leave it out where there is to be none"),
    ],
)
def test_what_is_wrong(key: str, value: str, said: str) -> None:
    """It is as if it were not there; what is right beside it counts."""
    found = wishes_of({key: value, "nvshare.com/memory-request": "1Gi"}, CONTAINERS)
    right = Terms(memory_request_bytes=GIB)
    assert found == Wishes({"": right, "main": right, "side": right}, (Problem(key, said),))


def test_a_long_value_makes_no_long_message() -> None:
    """Annotations may have 256 KiB."""
    (problem,) = of_pod("weight", "9" * 200_000).problems
    assert len(problem.message) < 200
    (problem,) = of_pod(f"container.{'x' * 60}.weight", "1").problems
    assert len(problem.message) < 200


@pytest.mark.parametrize(
    ("annotations", "key"),
    [
        ({"nvshare.com/memory-request": "2Gi", "nvshare.com/memory-limit": "1Gi"}, "nvshare.com/memory-request"),
        (
            {"nvshare.com/container.main.memory-request": "2Gi", "nvshare.com/memory-limit": "1Gi"},
            "nvshare.com/container.main.memory-request",
        ),
        (
            {"nvidia.com/container.main.gpu-memory.request": "2Gi", "nvshare.com/memory-limit": "1Gi"},
            "nvidia.com/container.main.gpu-memory.request",
        ),
        (
            {
                "nvshare.com/container.main.memory-request": "much",
                "nvshare.com/memory-request": "2Gi",
                "nvshare.com/container.main.memory-limit": "1Gi",
            },
            "nvshare.com/memory-request",
        ),
    ],
)
def test_a_request_above_the_limit(annotations: dict[str, str], key: str) -> None:
    """The limit counts, and the request does not; the one that asks for it is named once."""
    found = wishes_of(annotations, CONTAINERS)
    assert found.terms["main"] == Terms(memory_limit_bytes=GIB)
    said = "a memory request of 2.0 GiB is above the memory limit of 1.0 GiB"
    assert [problem for problem in found.problems if problem.message == said] == [Problem(key, said)]


@given(st.text())
def test_what_counts_is_what_the_texts_mean(text: str) -> None:
    """An annotation means what the same text means in the environment, and otherwise there is a problem."""
    for name, field, read in (
        ("weight", "weight", terms_texts.weight_of),
        ("compute-limit", "compute_limit", terms_texts.share_of),
        ("memory-limit", "memory_limit_bytes", terms_texts.memory_of),
    ):
        found = of_pod(name, text)
        try:
            wanted = read(text.strip())
        except ValueError:
            assert not found.terms
            assert len(found.problems) == 1
        else:
            assert found.terms["main"].said() == {field: wanted}
            assert not found.problems


@given(st.integers(10, 1_000_000))
def test_weights(thousandths: int) -> None:
    """Every weight that is allowed."""
    text = f"{thousandths / 1000:.3f}"
    assert of_pod("weight", text).terms["main"].weight == pytest.approx(thousandths / 1000)


@pytest.mark.parametrize(("value", "size_bytes"), [("8G", 8 * 10**9), ("8GB", 8 * 10**9), ("8Gi", 8 * GIB)])
def test_sizes(value: str, size_bytes: int) -> None:
    """They mean what they mean to Kubernetes, and everywhere else."""
    assert of_pod("memory-limit", value).terms["main"].memory_limit_bytes == size_bytes


@given(
    st.dictionaries(
        st.one_of(
            st.text(),
            st.sampled_from(["weight", "memory-limit", "container.main.memory-request"]).map("nvshare.com/{}".format),
            st.text().map("nvshare.com/{}".format),
            st.text().map("nvshare.com/container.{}".format),
            st.text().map("nvidia.com/container.{}".format),
        ),
        st.one_of(st.text(), st.sampled_from(["1", "2Gi", "1Gi", "high"])),
    ),
    st.lists(st.text(min_size=1), max_size=3, unique=True),
)
def test_anything_is_understood_or_a_problem(annotations: dict[str, str], containers: list[str]) -> None:
    """No annotations make the agent fail, and none is named twice with the same words."""
    found = wishes_of(annotations, containers)
    assert set(found.terms) <= {"", *containers}
    assert all(problem.key in annotations for problem in found.problems)
    assert len(set(found.problems)) == len(found.problems)
