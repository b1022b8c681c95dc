"""The error table is protocol: these rows never change."""

import pytest

from flotilla.types.errors import ALL_ERRORS, CorruptionError, InvalidArgumentError, NotLeaderError
from flotilla.types.ids import NO_NODE

#: The codes that clients know. Rows are added, never changed.
RECORDED = [
    (1, "NOT_LEADER", True, 421, "UNAVAILABLE"),
    (2, "OVERLOADED", True, 429, "RESOURCE_EXHAUSTED"),
    (3, "OUTCOME_UNKNOWN", True, 503, "UNAVAILABLE"),
    (4, "CONFIGURATION_CHANGE", False, 409, "FAILED_PRECONDITION"),
    (5, "INVALID_ARGUMENT", False, 400, "INVALID_ARGUMENT"),
    (6, "UNAVAILABLE", True, 503, "UNAVAILABLE"),
    (7, "CORRUPTION", False, 500, "DATA_LOSS"),
    (8, "DISK_FULL", True, 507, "RESOURCE_EXHAUSTED"),
    (9, "STORAGE_FAILED", True, 500, "INTERNAL"),
    (10, "NOT_FOUND", False, 404, "NOT_FOUND"),
    (11, "ALREADY_EXISTS", False, 409, "ALREADY_EXISTS"),
    (12, "SEQUENCE_GAP", False, 409, "FAILED_PRECONDITION"),
    (13, "PRODUCER_FENCED", False, 409, "FAILED_PRECONDITION"),
    (14, "OUT_OF_WINDOW", False, 409, "FAILED_PRECONDITION"),
    (15, "OFFSET_OUT_OF_RANGE", False, 416, "OUT_OF_RANGE"),
    (16, "LEASE_EXPIRED", False, 409, "FAILED_PRECONDITION"),
    (17, "GROUP_MODE", False, 409, "FAILED_PRECONDITION"),
    (18, "TRANSACTION_ENDED", False, 409, "ABORTED"),
    (19, "STALE_GENERATION", False, 409, "FAILED_PRECONDITION"),
    (20, "REPLICA_BEHIND", True, 503, "UNAVAILABLE"),
    (21, "GROUP_IN_USE", False, 409, "FAILED_PRECONDITION"),
    (22, "FORGOTTEN", False, 410, "FAILED_PRECONDITION"),
    (23, "TOPIC_REPLACED", False, 409, "FAILED_PRECONDITION"),
    (24, "TOPIC_GROWN", True, 409, "ABORTED"),
    (25, "PERMISSION_DENIED", False, 403, "PERMISSION_DENIED"),
    (26, "UNAUTHENTICATED", False, 401, "UNAUTHENTICATED"),
    (27, "QUOTA_EXCEEDED", False, 429, "RESOURCE_EXHAUSTED"),
    (32, "DEADLINE", True, 504, "DEADLINE_EXCEEDED"),
    (33, "CONNECTION_CLOSED", False, 503, "CANCELLED"),
    (34, "BUFFER_FULL", True, 429, "RESOURCE_EXHAUSTED"),
    (35, "UNSUPPORTED", False, 501, "UNIMPLEMENTED"),
    (36, "MESSAGE_FAILED", False, 409, "FAILED_PRECONDITION"),
    (0, "UNKNOWN", False, 500, "UNKNOWN"),
]


def test_the_table_is_as_clients_know_it():
    assert [tuple(error.row) for error in ALL_ERRORS] == RECORDED


def test_an_error_has_its_code_and_whether_to_retry():
    error = InvalidArgumentError("too long")
    assert (error.code, error.retryable, str(error)) == ("INVALID_ARGUMENT", False, "too long")


@pytest.mark.parametrize(("leader", "text"), [(NO_NODE, "no leader is known"), (3, "the leader is node 3")])
def test_not_leader_names_the_leader(leader, text):
    error = NotLeaderError(leader)
    assert error.leader == leader
    assert str(error) == text


def test_corruption_says_where():
    error = CorruptionError("checksum", group=4, low=10, high=12)
    assert (error.group, error.low, error.high) == (4, 10, 12)
