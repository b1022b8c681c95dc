"""The routes of a client when brokers do not agree."""

from random import Random

from flotilla.client._core.routes import Routes
from flotilla.types.address import parse_address
from flotilla.types.operations import BrokerInfo, Metadata, PartitionInfo, TopicInfo


def _metadata(topic_id: int, partitions: int) -> Metadata:
    infos = [PartitionInfo(number, 1, [1], term=1) for number in range(partitions)]
    return Metadata("c", 1, [BrokerInfo(1, "127.0.0.1:7600")], [TopicInfo("t", topic_id, infos, {})])


def test_a_broker_that_lags_does_not_make_partitions_disappear() -> None:
    routes = Routes([parse_address("127.0.0.1:7600")], Random(1))
    for partitions in (1, 3, 1):
        routes.update(_metadata(7, partitions), ["t"])
    assert len(routes.topics["t"].partitions) == 3
    # Another topic of the same name may have fewer.
    routes.update(_metadata(8, 2), ["t"])
    assert len(routes.topics["t"].partitions) == 2
