"""`cluster status`: what counts as whole, and the warnings it prints."""

import json

import pytest

from flotilla.cli.cluster import _is_whole, _show_status
from flotilla.types.operations import Metadata
from flotilla.types.operations.cluster import (
    REPLICA_BEHIND,
    REPLICA_DOWN,
    REPLICA_FORGETFUL,
    UNDER_REPLICATED,
    BrokerInfo,
    NodeWarning,
)
from flotilla.types.operations.topics import PartitionInfo, TopicInfo

BROKERS = [BrokerInfo(node, f"host{node}:7600") for node in (1, 2, 3)]
TOPIC = TopicInfo("orders", 1, [PartitionInfo(0, 1, [1, 2])], {})


def metadata() -> Metadata:
    return Metadata(cluster_id="c", controller=1, brokers=BROKERS, topics=[TOPIC])


def warning(code: str) -> NodeWarning:
    return NodeWarning(code, f"a sentence about {code}", 3, ["orders/0"])


@pytest.mark.parametrize(
    ("code", "is_whole"),
    [(UNDER_REPLICATED, False), (REPLICA_FORGETFUL, False), (REPLICA_DOWN, True), (REPLICA_BEHIND, True)],
)
def test_a_missing_replica_makes_the_cluster_incomplete(code: str, is_whole: bool) -> None:
    """A broker that is down counts by itself, and a replica that is behind catches up."""
    assert _is_whole(metadata(), [])
    assert _is_whole(metadata(), [warning(code)]) is is_whole


def test_warnings_are_sentences_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    _show_status(metadata(), [], {}, [warning(UNDER_REPLICATED)], as_json=False)
    assert "warning: a sentence about UNDER_REPLICATED" in capsys.readouterr().out
    _show_status(metadata(), [], {}, [warning(UNDER_REPLICATED)], as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert not shown["is_whole"]
    assert shown["warnings"] == [
        {
            "code": UNDER_REPLICATED,
            "message": "a sentence about UNDER_REPLICATED",
            "node": 3,
            "partitions": ["orders/0"],
        }
    ]
