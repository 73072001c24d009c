"""docs/compatibility.md says what the results say."""

from __future__ import annotations

from tests.gpu import page
from tests.gpu.results import Cell, Found
from tests.gpu.rows import ROWS


def test_page_is_fresh() -> None:
    """What is committed is what ``python -m tests.gpu.page`` makes of the results that are committed."""
    assert page.PAGE.read_text() == page.page(page.TEMPLATE.read_text(), page.saved())


def test_page_of_results() -> None:
    """It has the table, on which machines it was made and with which packages; what is not there is not said."""
    found = {
        "eager": Found(
            "PyTorch eager", "an H200", {"numpy": "2.5", "torch": "2.11"}, "", {"alone": Cell("equal", True)}
        ),
        "jax": Found("JAX", "another H200", {"jax": "0.11", "numpy": "2.4"}, "", {"alone": Cell("DIFFERS", False)}),
    }
    text = page.page("before\n{table}\nafter", found)
    assert "| PyTorch eager | equal |" in text
    assert "| JAX | DIFFERS |" in text
    assert "- an H200 (eager)\n- another H200 (jax)\n\n" in text
    assert "\n\nWith jax 0.11, numpy 2.5 (eager), numpy 2.4 (jax), torch 2.11." in text
    assert page.NOTHING not in text


def test_page_without_results() -> None:
    """An empty table is not shown: it is said that there is none."""
    assert page.page("{table}", {}) == page.NOTHING


def test_rows_fit_the_page() -> None:
    """No title breaks the table, and no two rows have the same."""
    titles = [row.title for row in ROWS.values()]
    assert len(set(titles)) == len(titles)
    assert not any("|" in title for title in titles)
