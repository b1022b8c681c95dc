"""A node to which other machines can connect says so."""

from dataclasses import replace

from flotilla.broker.exposure_warnings import exposure_warnings
from flotilla.types.address import Address
from flotilla.types.operations.cluster import INSECURE
from flotilla.types.settings import NodeSettings

EXPOSED = NodeSettings(node_id=2, http_listen=Address("0.0.0.0", 7680), insecure=True)


def test_only_addresses_that_others_can_reach_are_named() -> None:
    assert exposure_warnings(NodeSettings()) == []
    [warning] = exposure_warnings(EXPOSED)
    assert (warning.code, warning.node) == (INSECURE, 2)
    assert "node 2 listens at 0.0.0.0:7680 without authentication and encryption: whoever" in warning.message


def test_what_is_missing_is_named() -> None:
    [warning] = exposure_warnings(replace(EXPOSED, authentication=True))
    assert warning.message.endswith("without encryption: the network can read its data")
    assert exposure_warnings(replace(EXPOSED, authentication=True, tls_certificate="node2.crt")) == []
