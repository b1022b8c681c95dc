"""What a node says of itself, asked of a real one."""

from pathlib import Path

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.broker.group_names import GroupName, GroupNames
from flotilla.types.errors import DiskFullError, StorageFailedError
from tests.unit.broker.lone_node import LoneNode, run


def codes(lone: LoneNode) -> list[str]:
    return [reason.code for reason in lone.status.reasons()]


def test_a_node_without_a_cluster_is_healthy_but_not_ready(tmp_path: Path) -> None:
    async def test(lone: LoneNode) -> None:
        assert lone.status.health().is_ok
        assert lone.status.health().facts["cluster"] == ""
        assert codes(lone) == ["NO_CLUSTER"]

    run(tmp_path, test)


def test_a_node_becomes_ready_step_by_step(tmp_path: Path) -> None:
    async def test(lone: LoneNode) -> None:
        lone.follow(METADATA_GROUP)
        assert codes(lone) == ["NO_METADATA_LEADER"]
        lone.driver.remove_replica(METADATA_GROUP)

        await lone.lead(METADATA_GROUP)
        assert codes(lone) == ["NO_CLUSTER"]
        await lone.found()
        assert codes(lone) == []
        await lone.create_topic("orders", 2)
        assert codes(lone) == []
        lone.status.stopping()
        assert codes(lone) == ["STOPPING"]

    run(tmp_path, test)


def test_a_node_that_is_no_broker_is_not_ready(tmp_path: Path) -> None:
    async def test(lone: LoneNode) -> None:
        await lone.found()
        del lone.machine.state.brokers[1]
        assert codes(lone) == ["NOT_REGISTERED"]

    run(tmp_path, test)


def test_replicas_without_a_leader_are_named_but_not_all(tmp_path: Path) -> None:
    async def test(lone: LoneNode) -> None:
        await lone.found()
        for group in range(100, 108):
            lone.follow(group)
        [reason] = lone.status.reasons()
        assert reason.code == "NO_LEADER"
        named = ", ".join(f"__unassigned/{group}" for group in range(100, 105))
        assert reason.message == f"8 of 9 replicas know no leader: {named}, ..."

    run(tmp_path, test)


def test_a_damaged_replica_shows_in_health_and_readiness(tmp_path: Path) -> None:
    async def test(lone: LoneNode) -> None:
        await lone.found()
        _, group = await lone.create_topic("orders", 2)
        lone.driver.replicas[group].raft.damaged = [(3, 5)]
        health = lone.status.health()
        assert health.is_ok
        assert health.facts["damaged"] == [{"topic": "orders", "partition": 1, "ranges": [[3, 5]]}]
        [reason] = lone.status.reasons()
        assert (reason.code, reason.message) == ("DAMAGED", "1 of 3 replicas repair their log: orders/1")

    run(tmp_path, test)


def test_a_failing_disk_shows_in_health_and_readiness(tmp_path: Path) -> None:
    async def test(lone: LoneNode) -> None:
        await lone.found()
        for error in (DiskFullError("no room"), StorageFailedError("the sync failed")):
            lone.driver.storage_error = error
            health = lone.status.health()
            assert not health.is_ok
            assert (health.facts["storage"], health.facts["storage_message"]) == (error.code, str(error))
            assert [(reason.code, reason.message) for reason in lone.status.reasons()] == [(error.code, str(error))]
        lone.driver.storage_error = None
        assert lone.status.health().is_ok

    run(tmp_path, test)


def test_health_names_the_node(tmp_path: Path) -> None:
    async def test(lone: LoneNode) -> None:
        await lone.found()
        await lone.create_topic("orders", 2)
        facts = lone.status.health().facts
        assert facts["status"] == facts["storage"] == "ok"
        assert (facts["node"], facts["cluster"], facts["replicas"], facts["leading"]) == (1, "test", 3, 3)
        uptime_seconds = facts["uptime_seconds"]
        assert isinstance(uptime_seconds, float)
        assert 0 < uptime_seconds < 20

    run(tmp_path, test)


def test_a_group_has_the_name_of_its_partition(tmp_path: Path) -> None:
    async def test(lone: LoneNode) -> None:
        await lone.found()
        names = GroupNames(lone.catalog)
        assert names.of(16) == GroupName("__unassigned", 16)
        first, second = await lone.create_topic("orders", 2)
        assert str(names.of(first)) == "orders/0"
        assert str(names.of(second)) == "orders/1"
        assert str(names.of(METADATA_GROUP)) == "__metadata/0"
        await lone.delete_topic("orders")
        assert str(names.of(second)) == "orders/1", "its replica may still be here"
        names.forget_except(())
        assert names.of(second) == GroupName("__unassigned", second)
        assert str(names.of(METADATA_GROUP)) == "__metadata/0"

    run(tmp_path, test)
