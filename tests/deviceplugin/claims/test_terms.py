"""What the configuration of a claim says."""

from __future__ import annotations

from typing import Any

import pytest

from nvshare.deviceplugin.claims.terms import API_VERSION, KIND, NONE, WRITTEN, TermsError, terms_of
from nvshare.terms_texts import Terms

HEAD = {"apiVersion": API_VERSION, "kind": KIND}


def test_all_of_it() -> None:
    """Each field has the text of the annotation of its name."""
    said = terms_of(
        HEAD
        | {
            "weight": "2.5",
            "priority": "high",
            "computeLimit": "30%",
            "memoryLimit": "8Gi",
            "sleep": "idle",
            "whenFull": "refuse",
        }
    )
    assert said == Terms(2.5, "high", 0.3, 8 << 30, when_full="refuse", sleep="idle")
    assert set(WRITTEN) == set(said.said())


def test_numbers() -> None:
    """YAML makes numbers of some texts; they mean the same."""
    assert terms_of(HEAD | {"weight": 2, "computeLimit": 12.5}) == Terms(weight=2.0, compute_limit=0.125)


def test_nothing() -> None:
    """A configuration may say nothing."""
    assert terms_of(HEAD) == NONE


def test_field_by_field() -> None:
    """What one says counts, and of another what that one leaves open."""
    assert Terms(weight=2.0).over(Terms(weight=1.0, sleep="idle")) == Terms(weight=2.0, sleep="idle")


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (None, "no object"),
        ([1], "no object"),
        ({"kind": KIND}, "apiVersion is not said; gpu.nvshare.com/v1 is expected"),
        (HEAD | {"kind": "GpuConfig"}, "kind is 'GpuConfig'; ShareConfig is expected"),
        (
            HEAD | {"memory": "1Gi"},
            "no field 'memory'; there are weight, priority, computeLimit, memoryLimit, sleep, whenFull",
        ),
        (HEAD | {"weight": "heavy"}, "weight: 'heavy' is no weight; a number from 0.01 to 1000 is"),
        (HEAD | {"weight": True}, "weight: True is neither a text nor a number"),
        (HEAD | {"weight": None}, "weight: not said is neither"),
        (HEAD | {"weight": {"a": 1}}, "weight: {'a': 1} is neither"),
        (HEAD | {"priority": "urgent"}, "priority: 'urgent' is no priority; low, normal, high are"),
        (HEAD | {"computeLimit": "130"}, "computeLimit: '130' is no percentage"),
        (HEAD | {"memoryLimit": "8"}, "memoryLimit: '8' is 8 bytes, too small"),
        (HEAD | {"memoryLimit": "0"}, "memoryLimit: '0' is nothing"),
        (HEAD | {"sleep": "always"}, "sleep: 'always' is none of never, pressure, idle"),
        (HEAD | {"whenFull": "swap"}, "whenFull: 'swap' is none of wait, refuse"),
        (HEAD | {"sleep": "x" * 5000}, "…"),
    ],
)
def test_what_is_wrong(parameters: Any, text: str) -> None:
    """The text names the field, what it says and what is allowed, and is short."""
    with pytest.raises(TermsError) as error:
        terms_of(parameters)
    assert text in str(error.value)
    assert len(str(error.value)) < 300
