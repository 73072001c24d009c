"""cuInit, in fresh processes: what is done before the driver's, and that nothing else is."""

from __future__ import annotations

import pytest

from tests.shim.children import Children

CASES = (
    "what_costs_with_threads_is_done_before",
    "with_threads_it_is_left_to_the_first_device",
    "nothing_is_started_or_opened",
    "a_forked_child_does_it_for_itself",
    "the_driver_answers",
    "where_few_files_are_allowed",
)


@pytest.mark.parametrize("case", CASES)
def test_init(children: Children, case: str) -> None:
    """What the docstring of the case claims."""
    children.run_python("init_cases.py", case)
