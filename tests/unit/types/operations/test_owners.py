"""Ids of users, kept apart."""

import pytest

from flotilla.types.errors import InvalidArgumentError, PermissionDeniedError
from flotilla.types.operations.owners import (
    OWNED_ID_LENGTH_MAX,
    check_transaction_id,
    owned_producer_id,
    owned_transaction_id,
)


def test_a_transaction_id_is_stored_with_its_user():
    assert owned_transaction_id("anna", "t1", may_operate=False) == "anna~t1"
    assert owned_transaction_id("", "t1", may_operate=False) == "t1"
    assert owned_transaction_id("anna", "anna~t1", may_operate=False) == "anna~t1"
    assert owned_transaction_id("root", "anna~t1", may_operate=True) == "anna~t1"


@pytest.mark.parametrize(("user", "named"), [("ben", "anna~t1"), ("", "anna~t1"), ("", "~t1"), ("anna", "~t1")])
def test_the_transaction_of_another_user_is_refused(user, named):
    with pytest.raises(PermissionDeniedError, match="belongs to another user"):
        owned_transaction_id(user, named, may_operate=False)


@pytest.mark.parametrize("transaction_id", ["t", "t" * 64, "~", "a~", "a~b~c", "u" * 128 + "~" + "t" * 64])
def test_ids_that_may_be_stored(transaction_id):
    assert len(transaction_id) <= OWNED_ID_LENGTH_MAX
    check_transaction_id(transaction_id)


@pytest.mark.parametrize(
    "transaction_id", ["", "t" * 65, "a~" + "t" * 65, "u" * 129 + "~" + "t" * 64, "u" * 65 + "~", "a b", "ä", "\n"]
)
def test_ids_that_may_not_be_stored(transaction_id):
    with pytest.raises(InvalidArgumentError, match="a transaction's id has"):
        check_transaction_id(transaction_id)


def test_producers_of_two_users_are_two_producers():
    ids = {owned_producer_id(user, number) for user in ("anna", "ben") for number in (1, 2, 2**64 - 1)}
    assert len(ids) == 6
    # None looks like a producer of dead letters, nor like none at all.
    assert all(0 < each < 2**63 for each in ids)
