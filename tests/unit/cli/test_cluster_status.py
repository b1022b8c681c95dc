"""`cluster status`: what counts as whole, and the warnings it prints."""

import json
from dataclasses import replace

import pytest

from flotilla.cli.cluster import _is_whole, _show_status
from flotilla.cli.topic import _warn_of_sharing
from flotilla.types.operations import Metadata
from flotilla.types.operations.cluster import (
    ONE_PLACE,
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


def test_labels_have_columns_where_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    _show_status(metadata(), [], {}, [], as_json=False)
    assert "zone" not in capsys.readouterr().out
    found = replace(metadata(), brokers=[replace(BROKERS[0], zone="north"), *BROKERS[1:]])
    _show_status(found, [], {}, [], as_json=False)
    shown = capsys.readouterr().out
    assert "north" in shown
    assert "machine" not in shown
    _show_status(found, [], {}, [], as_json=True)
    assert [row["zone"] for row in json.loads(capsys.readouterr().out)["brokers"]] == ["north", "", ""]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ((("m", ""), ("m", ""), ("n", "")), "share a machine, because there are fewer machines than replicas"),
        ((("m", "a"), ("n", "a"), ("o", "b")), "share a zone, because there are fewer zones than replicas"),
        ((("m", ""), ("m", ""), ("m", "")), ""),
        ((("m", "a"), ("n", "a"), ("o", "a")), ""),
        ((("m", "a"), ("m", "a"), ("o", "a")), "share a machine"),
        ((("m", "a"), ("m", "b")), ""),
        ((("", ""), ("", "")), ""),
    ],
)
def test_a_new_topic_whose_replicas_share_a_label_is_warned_of(
    labels: tuple[tuple[str, str], ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    brokers = [replace(broker, machine=m, zone=z) for broker, (m, z) in zip(BROKERS, labels, strict=False)]
    _warn_of_sharing(TOPIC, brokers)
    told = capsys.readouterr().err
    assert said in told
    assert bool(said) == bool(told)


def test_what_asks_for_nothing_is_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    _show_status(metadata(), [], {}, [warning(ONE_PLACE)], as_json=False)
    assert "note: a sentence about ONE_PLACE" in capsys.readouterr().out


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
