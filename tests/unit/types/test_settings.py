"""The table of settings: kinds of values, bounds, and the rules between settings."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.types.address import Address, Peer
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.setting_kinds import choice, duration, endpoint, endpoints, hosts, peers, size, switch, text, whole
from flotilla.types.setting_table import Scope
from flotilla.types.settings import (
    SETTINGS,
    Given,
    NodeSettings,
    Origin,
    OriginKind,
    resolve,
)

FLAG = Origin(OriginKind.FLAG, "--x")

# Kinds.

addresses = st.builds(Address, st.sampled_from(["a", "b.example.org", "10.0.0.1", "::1"]), st.integers(1, 65_535))
peer_lists = st.lists(
    st.builds(Peer, st.integers(1, 99), addresses), unique_by=(lambda peer: peer.node, lambda peer: peer.address)
).map(lambda peers: tuple(sorted(peers)))

ROUND_TRIPS = {
    "whole": (whole(-5, 10**9), st.integers(-5, 10**9)),
    "duration": (duration(0, 10**12), st.integers(0, 10**12)),
    "size": (size(0, 2**50), st.integers(0, 2**50)),
    "switch": (switch(), st.booleans()),
    "text": (text("text"), st.text(st.characters(codec="utf-8"), min_size=1).filter(str.isprintable)),
    "choice": (choice("a", "b", "c"), st.sampled_from("abc")),
    "endpoint": (endpoint(), addresses),
    "endpoint or none": (endpoint("off"), st.none() | addresses),
    "endpoints": (endpoints(), st.lists(addresses, unique=True).map(tuple)),
    "peers": (peers(), peer_lists),
    "hosts": (hosts(), st.lists(st.from_regex(r"[a-z0-9_.-]{1,20}", fullmatch=True), unique=True).map(tuple)),
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_a_kind_reads_what_it_writes(name):
    kind, values = ROUND_TRIPS[name]

    @given(values)
    def check(value):
        assert kind.accepts(value)
        assert kind.read(kind.format(value)) == value
        assert type(kind.read(kind.format(value))) is type(value)

    check()


READ = [
    (whole(1, 9), 9, 9),
    (whole(1, 9), "007", 7),
    (duration(0, 10_000), 250, 250),
    (duration(0, 10_000), "10s", 10_000),
    (size(0, 4096), "4KiB", 4096),
    (switch(), True, True),
    (switch(), "Yes", True),
    (switch(), "0", False),
    (endpoint("off"), "off", None),
    (endpoint(port_min=0), "a:0", Address("a", 0)),
    (endpoints(), "", ()),
    (endpoints(), "a:1, b:2", (Address("a", 1), Address("b", 2))),
    (endpoints(), ["a:1", "b:2"], (Address("a", 1), Address("b", 2))),
    (hosts(), "", ()),
    (hosts(), "a.example, b", ("a.example", "b")),
    (hosts(), ["*"], ("*",)),
    (peers(), " ", ()),
    (peers(), "3=a:1, 2=b:2", (Peer(2, Address("b", 2)), Peer(3, Address("a", 1)))),
    (peers(), {"3": "a:1", "2": "b:2"}, (Peer(2, Address("b", 2)), Peer(3, Address("a", 1)))),
]


@pytest.mark.parametrize(("kind", "raw", "value"), READ)
def test_text_and_values_of_a_file_are_read(kind, raw, value):
    assert kind.read(raw) == value


REFUSED = [
    (whole(1, 9), ["", "x", "0", "10", "1.0", " 1", "1_0", 0, 10, 1.0, True, None, [], {}, "9" * 5000]),
    (duration(100, 1000), ["99ms", "2s", "x", "-1s", 99, True, 1.5, None]),
    (size(1, 1024), ["0", "1025", "1KB", 2048, False]),
    (switch(), ["", "ja", 1, 0, None, "true "]),
    (text("text"), ["", "a\nb", "\x1b[2J", "\udcff", 1, None]),
    (text("short", "[a-z]{1,3}"), ["abcd", "A", "a\n"]),
    (choice("a", "b"), ["", "A", "c", 1, None, ["a"]]),
    (endpoint(), ["", "off", "a", "a:0", None, 7600, ["a:1"]]),
    (endpoints(), ["a:1,", ",", "a", "a:0", "a:1,a:1", ["a:1", 2], [""], 5, None, {"a": 1}]),
    (hosts(), ["a:1", "a,", "a,a", "*.example", "http://a", "a b", "\u00e4", ["a", 1], [["a"]], 5, None]),
    (peers(), ["2", "2=", "=a:1", "x=a:1", "0=a:1", "-1=a:1", f"{2**32}=a:1", "2=a:0", "2=a:1,2=b:1", "2=a:1,3=a:1"]),
    (peers(), ["2=a:1,", ["2=a:1"], {"2": 5}, {"2": {}}, {"": "a:1"}, 2, None]),
]


@pytest.mark.parametrize(
    ("kind", "raw"), [pytest.param(kind, raw, id=f"{kind.shape}-{raw!r:.20}") for kind, raws in REFUSED for raw in raws]
)
def test_everything_else_is_refused(kind, raw):
    with pytest.raises(ValueError):
        kind.read(raw)


@given(st.text())
def test_no_text_breaks_a_kind(text):
    for setting in SETTINGS.values():
        try:
            setting.kind.read(text)
        except ValueError:
            pass


# The table.


def test_the_defaults_stand_together():
    NodeSettings().validate()
    assert resolve({}).settings == NodeSettings()
    assert set(resolve({}).origins.values()) == {Origin(OriginKind.DEFAULT)}


def test_the_ports_are_the_documented_ones():
    settings = NodeSettings()
    listeners = (settings.listen, settings.peer_listen, settings.grpc_listen, settings.http_listen)
    assert [address.port for address in listeners if address] == [7600, 7601, 7650, 7680]
    assert all(address.is_loopback for address in listeners if address)


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_every_row_is_complete(setting):
    assert setting.kind.read(setting.kind.format(setting.default)) == setting.default
    assert setting.help.endswith(".")
    assert setting.kind.allowed
    assert setting.kind.shape
    assert (setting.kind.shape == "DURATION") == setting.name.endswith("_ms")
    assert (setting.kind.shape == "SIZE") == ("_bytes" in setting.name)


def test_names_are_the_same_everywhere():
    setting = SETTINGS["http_listen"]
    assert (setting.flag, setting.variable) == ("--http-listen", "FLOTILLA_HTTP_LISTEN")
    assert [setting.name for setting in SETTINGS.values()] == [field.name for field in fields(NodeSettings)]


def test_sections_are_not_torn_apart():
    sections = [setting.section for setting in SETTINGS.values()]
    assert sections == sorted(sections, key=sections.index)


def test_settings_of_the_cluster_are_marked():
    shared = {setting.name for setting in SETTINGS.values() if setting.scope is Scope.CLUSTER}
    assert {"cluster_name", "election_timeout_ms", "default_partitions"} <= shared
    assert not {"node_id", "data_dir", "listen", "log_level"} & shared


def test_a_bad_value_is_named_with_its_origin_and_what_is_allowed():
    given_values = {"heartbeat_ms": Given("1x", Origin(OriginKind.ENVIRONMENT, "FLOTILLA_HEARTBEAT_MS"))}
    with pytest.raises(InvalidArgumentError) as caught:
        resolve(given_values)
    assert str(caught.value) == (
        "heartbeat_ms = '1x' (environment FLOTILLA_HEARTBEAT_MS): "
        "expected a duration from 100ms to 10s (units: ms, s, m, h, d)"
    )


def test_a_long_bad_value_is_cut():
    with pytest.raises(InvalidArgumentError) as caught:
        resolve({"node_id": Given("x" * 10_000, FLAG)})
    assert len(str(caught.value)) < 200


# Rules between settings.

REMOTE = (Peer(2, Address("10.0.0.2", 7601)),)
LOCAL = (Peer(2, Address("127.0.0.1", 8601)),)
ANY = Address("0.0.0.0", 7600)

#: In a network that keeps others out.
ALONE: dict[str, Any] = {"insecure": True, "join_secret": "join.secret"}

BROKEN = [
    ({"election_timeout_ms": 400, "heartbeat_ms": 150}, "election_timeout_ms = '400ms' and heartbeat_ms = '150ms'"),
    ({"election_timeout_ms": 500, "heartbeat_ms": 251}, "election_timeout_ms = '500ms' and heartbeat_ms = '251ms'"),
    ({"quiesce_ms": 299}, "quiesce_ms = '299ms' and heartbeat_ms = '300ms'"),
    ({"peers": LOCAL, "join": (Address("localhost", 1),)}, "peers = '2=127.0.0.1:8601' and join = 'localhost:1'"),
    ({"listen": Address("127.0.0.1", 7680)}, "listen = '127.0.0.1:7680' and http_listen = '127.0.0.1:7680'"),
    ({"grpc_listen": Address("::", 7601)}, "peer_listen = '127.0.0.1:7601' and grpc_listen = '[::]:7601'"),
    ({"peers": LOCAL, "listen": ANY}, "advertise = 'auto': others cannot connect to 0.0.0.0:7600"),
    ({"join": (Address("localhost", 1),), "peer_listen": Address("::", 1)}, "peer_advertise = 'auto'"),
    ({"peers": REMOTE}, "advertise = 'auto': nodes on other machines cannot connect to 127.0.0.1:7600"),
    ({"peers": REMOTE, "advertise": Address("a", 1)}, "peer_advertise = 'auto': nodes on other machines"),
    ({"listen": ANY}, "listen = '0.0.0.0:7600' and insecure = 'false': other machines can connect there"),
    ({"listen": ANY, "insecure": True}, "listen = '0.0.0.0:7600' and join_secret = '': other machines can connect"),
    (
        {"peer_listen": ANY, "insecure": True, "listen": Address("127.0.0.1", 1)},
        "peer_listen = '0.0.0.0:7600' and join",
    ),
    (
        {
            "listen": ANY,
            "insecure": True,
            "tls_certificate": "a",
            "tls_key": "a",
            "tls_ca": "a",
            "tls_mode": "optional",
        },
        "listen = '0.0.0.0:7600' and join_secret = ''",
    ),
    ({"http_listen": Address("node1", 1)}, "http_listen = 'node1:1' and insecure = 'false'"),
    ({"tls_certificate": "a.crt"}, "tls_certificate = 'a.crt' and tls_key = '': a node with TLS needs its certificate"),
    ({"tls_key": "a.key", "tls_ca": "ca.crt"}, "tls_key = 'a.key' and tls_certificate = ''"),
    (
        {"tls_client_certificates": "required"},
        "tls_client_certificates = 'required': clients have certificates only where tls_certificate is set",
    ),
    (
        {"listen": ANY, "tls_certificate": "a.crt", "tls_key": "a.key", "tls_ca": "ca.crt"},
        "listen = '0.0.0.0:7600' and insecure = 'false'",
    ),
    ({"token_issuers": "a.toml", "token_keys": "a"}, "token_issuers = 'a.toml' and token_keys = 'a': the file of"),
    ({"node_id": 0}, "node_id = 0: expected"),
    ({"advertise": Address("a", 0)}, "advertise = Address(host='a', port=0): expected"),
]


@pytest.mark.parametrize(("changes", "complaint"), BROKEN, ids=[complaint for _, complaint in BROKEN])
def test_a_broken_rule_names_both_sides(changes, complaint):
    with pytest.raises(InvalidArgumentError) as caught:
        replace(NodeSettings(), **changes).validate()
    assert str(caught.value).startswith(complaint)


GOOD = [
    {"election_timeout_ms": 600},
    {"election_timeout_ms": 400, "heartbeat_ms": 100},
    {"quiesce_ms": 0},
    {"quiesce_ms": 300},
    {"peers": LOCAL},
    {"listen": ANY, **ALONE},
    {"listen": ANY, **ALONE, "advertise": Address("a", 1), "peer_advertise": Address("a", 2), "peers": REMOTE},
    {"http_listen": ANY, "listen": Address("127.0.0.1", 1), "insecure": True},
    {"listen": ANY, "insecure": True, "tls_certificate": "a.crt", "tls_key": "a.key", "tls_ca": "ca.crt"},
    {"advertise": Address("a", 1), "peers": (*REMOTE, Peer(1, Address("10.0.0.1", 7601)))},
    {"http_listen": None, "grpc_listen": None},
    {"listen": Address("127.0.0.1", 0), "peer_listen": Address("127.0.0.1", 0)},
    {"listen": Address("10.0.0.1", 7680), **ALONE},
    {"tls_certificate": "a.crt", "tls_key": "a.key", "tls_ca": "ca.crt", "tls_client_certificates": "optional"},
]


@pytest.mark.parametrize("changes", GOOD, ids=str)
def test_compatible_settings_pass(changes):
    replace(NodeSettings(), **changes).validate()


@pytest.mark.parametrize(
    ("changes", "creates"),
    [
        ({}, True),
        ({"auto_create_topics": False}, False),
        ({"listen": ANY, "insecure": True}, False),
        ({"listen": ANY, "insecure": True, "auto_create_topics": True}, True),
    ],
    ids=str,
)
def test_topics_are_created_by_producing_where_no_stranger_can(changes, creates):
    assert replace(NodeSettings(), **changes).creates_topics is creates


def test_a_broken_rule_names_the_origins():
    with pytest.raises(
        InvalidArgumentError, match=r"quiesce_ms = '1ms' \(flag --x\) and heartbeat_ms = .* \(default\)"
    ):
        resolve({"quiesce_ms": Given("1ms", FLAG)})


# What follows from settings.


def test_a_node_may_be_in_its_own_list():
    peers = (Peer(1, Address("a", 1)), Peer(2, Address("b", 1)))
    settings = NodeSettings(peers=peers)
    assert settings.other_peers == {2: Address("b", 1)}
    assert settings.peer_advertised == Address("a", 1)
    assert replace(settings, peer_advertise=Address("c", 1)).peer_advertised == Address("c", 1)
    assert NodeSettings().peer_advertised == NodeSettings().peer_listen


def test_clients_get_the_advertised_address():
    assert NodeSettings().advertised == NodeSettings().listen
    assert NodeSettings(advertise=Address("a", 1)).advertised == Address("a", 1)


def test_clusters_of_different_names_have_different_digests():
    digests = {NodeSettings(cluster_name=name).cluster_digest for name in ("flotilla", "flotilla2")}
    assert len(digests) == 2
    assert NodeSettings().cluster_digest.hex() == "40dd70de173af758d11247c3e1d7d3e1"


def test_a_node_that_encrypts_and_asks_may_listen_to_all():
    tls = {"tls_certificate": "a.crt", "tls_key": "a.key", "tls_ca": "ca.crt"}
    everywhere = {"listen": Address("0.0.0.0", 7600), "advertise": Address("node1", 7600)}
    NodeSettings(**everywhere, **tls, authentication=True).validate()
    NodeSettings(**everywhere, **ALONE).validate()
    for weaker in ({}, tls, {"authentication": True}):
        with pytest.raises(InvalidArgumentError, match="insecure"):
            NodeSettings(**everywhere, **weaker).validate()
