"""How people write what a container may have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvshare import terms_texts


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (terms_texts.weight_of, "0.01", 0.01),
        (terms_texts.weight_of, "1000", 1000.0),
        (terms_texts.priority_of, "low", "low"),
        (terms_texts.when_full_of, "wait", "wait"),
        (terms_texts.sleep_of, "idle", "idle"),
        (terms_texts.share_of, "30", 0.3),
        (terms_texts.share_of, "12.5%", 0.125),
        (terms_texts.memory_of, "1.5GiB", 3 << 29),
        (terms_texts.container_of, "train-1.py_2", "train-1.py_2"),
    ],
)
def test_what_a_text_means(read: Callable[[str], object], text: str, value: object) -> None:
    """The value that it stands for."""
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (terms_texts.weight_of, "0"),
        (terms_texts.weight_of, "1e2"),
        (terms_texts.weight_of, "nan"),
        (terms_texts.weight_of, "²"),
        (terms_texts.priority_of, "High"),
        (terms_texts.when_full_of, ""),
        (terms_texts.sleep_of, "always"),
        (terms_texts.share_of, "0.05"),
        (terms_texts.share_of, "100.001"),
        (terms_texts.memory_of, "0"),
        (terms_texts.memory_of, "20"),
        (terms_texts.memory_of, "much"),
        (terms_texts.container_of, ""),
        (terms_texts.container_of, "a@0"),
        (terms_texts.container_of, "x" * 48),
    ],
)
def test_what_means_nothing(read: Callable[[str], object], text: str) -> None:
    """The error has the text."""
    with pytest.raises(ValueError, match="is"):
        read(text)
