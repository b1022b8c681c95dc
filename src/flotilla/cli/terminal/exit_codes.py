"""The exit codes of commands, for scripts.

One table maps every typed error to a code, and the reference page is made from it. A user's mistake is one line on
standard error; a stack trace means that the program itself is wrong.
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
    ForgottenError,
    GroupInUseError,
    GroupModeError,
    InvalidArgumentError,
    LeaseExpiredError,
    NotFoundError,
    NotLeaderError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    OverloadedError,
    PermissionDeniedError,
    TopicReplacedError,
    TransactionEndedError,
    UnauthenticatedError,
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
FAILED: Final = ExitCode(1, "It failed; the line on standard error says why.")
USAGE: Final = ExitCode(
    2,
    "Something in the command, the settings or the request is not allowed; nothing was done.",
    (InvalidArgumentError, UnsupportedError, OffsetOutOfRangeError),
)
NOT_FOUND: Final = ExitCode(3, "No topic, partition or node of that name.", (NotFoundError,))
UNAVAILABLE: Final = ExitCode(
    4,
    "No broker answers, there is no leader, or the cluster is full. Nothing was done; the same command can work later.",
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
    "It exists already, or the state of the cluster does not allow it.",
    (
        AlreadyExistsError,
        ConfigurationChangeError,
        LeaseExpiredError,
        GroupModeError,
        GroupInUseError,
        TopicReplacedError,
        TransactionEndedError,
        ForgottenError,
    ),
)
UNKNOWN: Final = ExitCode(6, "It may or may not have been done: check before you repeat it.", (OutcomeUnknownError,))
EXPELLED: Final = ExitCode(
    7,
    "The broker ended because its node has no place in the cluster: it was removed, or its data directory is older "
    "than the cluster knows. Starting it again as it is does not help.",
)
DENIED: Final = ExitCode(
    8,
    "The cluster does not know who asks, or the user may not do this; nothing was done.",
    (PermissionDeniedError, UnauthenticatedError),
)
INTERRUPTED: Final = ExitCode(130, "Interrupted from the keyboard.")

ALL: Final = (OK, FAILED, USAGE, NOT_FOUND, UNAVAILABLE, CONFLICT, UNKNOWN, EXPELLED, DENIED, INTERRUPTED)

_BY_ERROR: Final = {error: row.code for row in ALL for error in row.errors}

_NO_ANSWER: Final = "is a broker running there? `flotilla serve` starts one, and --servers names others"


def advice(error: FlotillaError) -> str:
    """A hint that the error itself cannot give."""
    return f"; {_NO_ANSWER}" if isinstance(error, DeadlineError) else ""


def exit_code(error: FlotillaError) -> int:
    return _BY_ERROR.get(type(error), FAILED.code)
