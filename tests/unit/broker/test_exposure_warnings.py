"""A node to which other machines can connect says so."""

from flotilla.broker.exposure_warnings import exposure_warnings
from flotilla.types.address import Address
from flotilla.types.operations.cluster import INSECURE
from flotilla.types.settings import NodeSettings


def test_only_addresses_that_others_can_reach_are_named() -> None:
    assert exposure_warnings(2, NodeSettings().exposed) == []
    [warning] = exposure_warnings(2, NodeSettings(http_listen=Address("0.0.0.0", 7680), insecure=True).exposed)
    assert (warning.code, warning.node) == (INSECURE, 2)
    assert "node 2 listens at 0.0.0.0:7680 without authentication" in warning.message
