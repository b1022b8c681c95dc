"""Scripts read exit codes: each error has one, and each code one meaning."""

import pytest

from flotilla.cli.terminal.exit_codes import ALL, FAILED, INTERRUPTED, OK, advice, exit_code
from flotilla.types.errors import (
    ALL_ERRORS,
    AlreadyExistsError,
    CorruptionError,
    DeadlineError,
    InvalidArgumentError,
    NotFoundError,
    NotLeaderError,
    OutcomeUnknownError,
    UnavailableError,
)


def test_codes_are_unique_and_fit_a_process():
    codes = [row.code for row in ALL]
    assert len(set(codes)) == len(codes)
    assert all(0 <= code < 256 for code in codes)


def test_no_error_has_two_codes():
    listed = [error for row in ALL for error in row.errors]
    assert len(set(listed)) == len(listed)
    assert set(listed) <= set(ALL_ERRORS)


@pytest.mark.parametrize("error", ALL_ERRORS)
def test_no_error_looks_like_success_or_an_interrupt(error):
    made = error() if error is NotLeaderError else error("why")
    assert exit_code(made) not in (OK.code, INTERRUPTED.code)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidArgumentError("x"), 2),
        (NotFoundError("x"), 3),
        (UnavailableError("x"), 4),
        (DeadlineError("x"), 4),
        (NotLeaderError(2), 4),
        (AlreadyExistsError("x"), 5),
        (OutcomeUnknownError("x"), 6),
        (CorruptionError("x"), FAILED.code),
    ],
)
def test_the_code_of_an_error(error, code):
    assert exit_code(error) == code


def test_only_silence_is_met_with_advice():
    assert "flotilla serve" in advice(DeadlineError("x"))
    assert advice(NotFoundError("x")) == ""
    assert advice(UnavailableError("x")) == ""
