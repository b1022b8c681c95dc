"""Addresses are read as people write them, and survive being written down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.types.address import PORT_MAX, Address, parse_address

ports = st.integers(0, PORT_MAX)
names = st.text("abc019-_.", min_size=1, max_size=20)
hosts = st.one_of(names, st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(str))


@given(hosts, ports)
def test_an_address_is_parsed_as_it_was_formatted(host, port):
    address = Address(host, port)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:7600", Address("localhost", 7600)),
        ("10.0.0.1:0", Address("10.0.0.1", 0)),
        ("[::1]:7600", Address("::1", 7600)),
        ("[0:0:0:0:0:0:0:1]:7600", Address("::1", 7600)),
        ("[fe80::1%eth0]:1", Address("fe80::1%eth0", 1)),
        ("node_1.flotilla.svc:65535", Address("node_1.flotilla.svc", 65535)),
    ],
)
def test_good_addresses(text, address):
    assert parse_address(text) == address


BAD = ["", "localhost", ":7600", "7600", "a:", "a:x", "a:-1", "a:65536", "a:123456", "a b:1", "a:1 ", "::1:7600"]
BAD += [
    "[::1]",
    "[nothing]:1",
    "[1.2.3.4]:1",
    "[::1:1",
    "http://a:1",
    "a:1,b:2",
    "a:१",
    "ä:1",
    "a:1\n",
    "a" * 254 + ":1",
]


@pytest.mark.parametrize("text", BAD)
def test_bad_addresses_are_refused(text):
    with pytest.raises(ValueError):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "is_wildcard", "is_loopback"),
    [
        ("0.0.0.0", True, False),
        ("::", True, False),
        ("127.0.0.1", False, True),
        ("127.1.2.3", False, True),
        ("localhost", False, True),
        ("::1", False, True),
        ("10.0.0.1", False, False),
        ("127.example.org", False, False),
        ("node1", False, False),
    ],
)
def test_loopback_and_wildcard_addresses(host, is_wildcard, is_loopback):
    address = Address(host, 1)
    assert (address.is_wildcard, address.is_loopback) == (is_wildcard, is_loopback)
