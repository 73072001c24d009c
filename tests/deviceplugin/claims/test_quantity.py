"""Amounts as the Kubernetes API writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.deviceplugin.claims.quantity import whole

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("8Gi", 8 * GIB),
        ("8.5Gi", 17 * GIB // 2),
        ("1500M", 1_500_000_000),
        ("8589934592", 8 * GIB),
        ("1e3", 1000),
        ("12E2", 1200),
        ("1E", 10**18),
        ("2Ei", 2 << 60),
        (".5k", 500),
        ("5.", 5),
        ("+3", 3),
        ("1500m", 2),
        ("1n", 1),
        ("5e-1", 1),
    ],
)
def test_what_it_means(text: str, amount: int) -> None:
    """Every form that the API has; parts of one are rounded up, as Kubernetes does."""
    assert whole(text) == amount


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Gi",
        "8gi",
        "8 Gi",
        "8GiB",
        "-1",
        "1e",
        "0x8",
        "1_000",
        "٣",
        "9" * 40,
        "inf",
        "10E",
        "9e40",
        "9223372036854775808",
    ],
)
def test_what_it_is_not(text: str) -> None:
    """What is none is refused, and so is what is below nothing; no text makes a number without end."""
    with pytest.raises(ValueError, match=r"quantity|from 0"):
        whole(text)


@given(st.integers(0, 1 << 62))
def test_bytes(amount: int) -> None:
    """A number of bytes is itself."""
    assert whole(str(amount)) == amount
