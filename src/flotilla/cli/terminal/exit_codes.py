"""What a command says by its exit code, so that scripts need not read its words.

One table: every typed error leads to one of these codes, and the reference page is made from it. A user's mistake
is one line on standard error, never a stack trace; a stack trace means that the program itself is wrong.
"""

from typing import Final, NamedTuple

from flotilla.types.errors import (
    AlreadyExistsError,
    BufferFullError,
    ConfigurationChangeError,
    ConnectionClosedError,
    DeadlineError,
    DiskFullError,
    FlotillaError,
    GroupInUseError,
    GroupModeError,
    InvalidArgumentError,
    LeaseExpiredError,
    NotFoundError,
    NotLeaderError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    OverloadedError,
    TransactionEndedError,
    UnavailableError,
    UnsupportedError,
)


class ExitCode(NamedTuple):
    """One row of the table."""

    code: int
    meaning: str
    #: Errors that end a command with this code; any other ends it with FAILED.
    errors: tuple[type[FlotillaError], ...] = ()


OK: Final = ExitCode(0, "Done.")
FAILED: Final = ExitCode(1, "It did not work; the line on standard error says why.")
USAGE: Final = ExitCode(
    2,
    "Something in the command, the settings or the request is not allowed; nothing was done.",
    (InvalidArgumentError, UnsupportedError, OffsetOutOfRangeError),
)
NOT_FOUND: Final = ExitCode(3, "No topic, partition or node of that name.", (NotFoundError,))
UNAVAILABLE: Final = ExitCode(
    4,
    "No broker answers, nobody leads, or there is no room. Nothing was done; the same command can work later.",
    (
        UnavailableError,
        DeadlineError,
        NotLeaderError,
        OverloadedError,
        DiskFullError,
        BufferFullError,
        ConnectionClosedError,
    ),
)
CONFLICT: Final = ExitCode(
    5,
    "It is there already, or the cluster is in another state.",
    (
        AlreadyExistsError,
        ConfigurationChangeError,
        LeaseExpiredError,
        GroupModeError,
        GroupInUseError,
        TransactionEndedError,
    ),
)
UNKNOWN: Final = ExitCode(6, "It may or may not have been done: look before you repeat it.", (OutcomeUnknownError,))
INTERRUPTED: Final = ExitCode(130, "Interrupted from the keyboard.")

ALL: Final = (OK, FAILED, USAGE, NOT_FOUND, UNAVAILABLE, CONFLICT, UNKNOWN, INTERRUPTED)

_BY_ERROR: Final = {error: row.code for row in ALL for error in row.errors}


_NO_ANSWER: Final = "is a broker running there? `flotilla serve` starts one, and --servers names others"


def advice(error: FlotillaError) -> str:
    """What to do about it, where the error itself cannot know."""
    return f"; {_NO_ANSWER}" if isinstance(error, DeadlineError) else ""


def exit_code(error: FlotillaError) -> int:
    return _BY_ERROR.get(type(error), FAILED.code)
