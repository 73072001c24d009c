"""What containers are called that are in no pod."""

from __future__ import annotations

import pytest

from nvshare import container_names, terms_texts


@pytest.mark.parametrize("command", ["python", "/usr/bin/python3.11", "./a b€.sh", "/", "", "x" * 100])
def test_made_up(command: str) -> None:
    """It is a name that a container may have, another one each time, and none that somebody gave."""
    name = container_names.made_up(command)
    assert terms_texts.container_of(name) == name
    assert name != container_names.made_up(command)
    assert container_names.given(f"{name}@1000") == ""


@pytest.mark.parametrize(
    ("member_of", "name"),
    [("train@1000", "train"), ("run-7@0", "run-7"), ("pid:7@0", ""), ("space/pod/main", ""), ("", "")],
)
def test_given(member_of: str, name: str) -> None:
    """Of a pod its place is shown; of a process alone nothing."""
    assert container_names.given(member_of) == name
