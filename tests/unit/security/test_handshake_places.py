"""Places for handshakes: whose is given up."""

from flotilla.security.handshake_places import given_up
from flotilla.types.limits import PEER_MEMBER_HANDSHAKE_COUNT_MAX as KEPT


def is_member(host: str) -> bool:
    return host.startswith("m")


def test_the_address_with_the_most_loses_its_oldest() -> None:
    assert given_up(dict(enumerate("abbca")), is_member) == 0
    assert given_up(dict(enumerate("acbba")), is_member) == 0
    assert given_up(dict(enumerate("acbbab")), is_member) == 2


def test_members_lose_none_while_they_are_few() -> None:
    assert given_up(dict(enumerate("m" * KEPT + "ab")), is_member) == KEPT
    assert given_up(dict(enumerate("m" * (KEPT + 1) + "ab")), is_member) == 0
    assert given_up(dict(enumerate("mm")), is_member) == 0
