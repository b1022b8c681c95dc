"""Ids that clients choose, kept apart by user.

Whoever learns the producer id of another user could make a partition take that user's batches for repetitions, and
whoever learns a transaction's id could end the transaction. So a broker stores the ids of users who have logged in
together with their names: two users with the same id share nothing, and nothing has to be remembered. Ids of callers
who were not asked who they are stay as they came.
"""

from hashlib import blake2b
from typing import Final

from flotilla.types.access import USER_NAME_LENGTH_MAX
from flotilla.types.errors import InvalidArgumentError, PermissionDeniedError

#: Between a user's name, which never has it, and the id.
SEPARATOR: Final = "~"
#: Of the id as its client knows it, and as brokers store it.
TRANSACTION_ID_LENGTH_MAX: Final = 64
OWNED_ID_LENGTH_MAX: Final = USER_NAME_LENGTH_MAX + len(SEPARATOR) + TRANSACTION_ID_LENGTH_MAX


def owned_transaction_id(user: str, transaction_id: str, *, may_operate: bool) -> str:
    """The id of a user's transaction as brokers store it. An empty user: nobody was asked who they are.

    An id with an owner is left as it is: users may name their own so, and those who may operate anybody's. Raises
    PermissionDeniedError for that of another user.
    """
    owner, separator, _ = transaction_id.partition(SEPARATOR)
    if not separator:
        return f"{user}{SEPARATOR}{transaction_id}" if user else transaction_id
    if may_operate or (owner and owner == user):
        return transaction_id
    raise PermissionDeniedError(f"transaction {transaction_id} belongs to another user: an id has no {SEPARATOR!r}")


def check_transaction_id(transaction_id: str) -> None:
    """As brokers store it. Raises InvalidArgumentError."""
    _, separator, named = transaction_id.partition(SEPARATOR)
    is_owned = bool(separator) and len(transaction_id) <= OWNED_ID_LENGTH_MAX
    if not 0 < len(named if is_owned and named else transaction_id) <= TRANSACTION_ID_LENGTH_MAX:
        raise InvalidArgumentError(f"a transaction's id has 1 to {TRANSACTION_ID_LENGTH_MAX} characters")
    if not (transaction_id.isascii() and transaction_id.isprintable()) or " " in transaction_id:
        raise InvalidArgumentError("a transaction's id has printable ASCII characters and no spaces")


def owned_producer_id(user: str, producer_id: int) -> int:
    """The id under which a partition knows the producer of a user: as long as one that a client draws, never 0."""
    digest = blake2b(f"{user}{SEPARATOR}{producer_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1 or 1
