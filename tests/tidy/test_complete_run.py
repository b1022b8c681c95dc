"""The complete run adds up the closing lines of its parts and does not lose a failure."""

from collections import Counter

import pytest

from tests.__main__ import NOT_PASSED, closing_line, outcomes


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("....\n12 passed in 1.20s\n", {"passed": 12}),
        ("=== 1 failed, 12 passed, 2 skipped in 61.20s (0:01:01) ===\n", {"failed": 1, "passed": 12, "skipped": 2}),
        ("1 passed in 0.10s\n2 passed, 2 errors in 0.20s\n", {"passed": 2, "error": 2}),
        ("Segmentation fault\n", {"error": 1}),
    ],
)
def test_outcomes_are_those_of_the_last_closing_line(output: str, expected: dict[str, int]) -> None:
    assert outcomes(output) == Counter(expected)


def test_the_closing_line_is_in_the_form_of_pytest() -> None:
    counts = Counter(passed=2900, failed=3, error=2, skipped=1)
    assert closing_line(counts, 512.337) == "3 failed, 2900 passed, 1 skipped, 2 errors in 512.34s"
    assert outcomes(closing_line(counts, 1.0)) == counts


def test_tests_that_failed_are_named() -> None:
    output = "..F\nFAILED tests/a.py::test_a - assert 1 == 2\nERROR tests/b.py\n1 failed, 1 error in 0.1s\n"
    assert NOT_PASSED.findall(output) == ["FAILED tests/a.py::test_a - assert 1 == 2", "ERROR tests/b.py"]
