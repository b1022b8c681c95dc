"""The status of a real node."""

from pathlib import Path

from flotilla.broker.catalog import METADATA_GROUP
from flotilla.broker.group_names import GroupName, GroupNames
from flotilla.types.errors import DiskFullError, StorageFailedError
from tests.unit.broker.single_node import SingleNode, run


def codes(single: SingleNode) -> list[str]:
    return [reason.code for reason in single.status.reasons()]


def test_a_node_without_a_cluster_is_healthy_but_not_ready(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        assert single.status.health().is_ok
        assert single.status.health().facts["cluster"] == ""
        assert codes(single) == ["NO_CLUSTER"]

    run(tmp_path, test)


def test_a_node_becomes_ready_step_by_step(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        single.follow(METADATA_GROUP)
        assert codes(single) == ["NO_METADATA_LEADER"]
        single.driver.remove_replica(METADATA_GROUP)

        await single.lead(METADATA_GROUP)
        assert codes(single) == ["NO_CLUSTER"]
        await single.found()
        assert codes(single) == []
        await single.create_topic("orders", 2)
        assert codes(single) == []
        single.status.stopping()
        assert codes(single) == ["STOPPING"]

    run(tmp_path, test)


def test_a_node_whose_start_is_not_registered_is_not_ready(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        single.is_registered = False
        assert codes(single) == ["NOT_REGISTERED"]

    run(tmp_path, test)


def test_replicas_without_a_leader_are_named_but_not_all(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        for group in range(100, 108):
            single.follow(group)
        [reason] = single.status.reasons()
        assert reason.code == "NO_LEADER"
        named = ", ".join(f"__unassigned/{group}" for group in range(100, 105))
        assert reason.message == f"8 of 9 replicas know no leader: {named}, ..."

    run(tmp_path, test)


def test_a_failed_replica_shows_in_health_and_readiness(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        _, group = await single.create_topic("orders", 2)
        single.node.runtime.fail(group, ZeroDivisionError("a bug"))
        health = single.status.health()
        assert health.is_ok
        assert health.facts["failed"] == ["orders/1"]
        [reason] = single.status.reasons()
        assert reason.code == "FAILED"
        text = "1 replicas failed and are out of operation until this node starts again: orders/1"
        assert reason.message == text
        assert 'flotilla_replicas{state="failed"} 1' in (await single.status.metrics()).decode()

    run(tmp_path, test)


def test_a_disk_that_does_not_return_a_read_shows_in_health_and_readiness(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        _, group = await single.create_topic("orders", 2)
        single.driver._loads.begin(HangingLoad(group))
        for _ in range(single.driver._options.load_ticks_max):
            single.driver._loads.tick()
        health = single.status.health()
        assert health.is_ok
        assert health.facts["stalled"] == ["orders/1"]
        [reason] = single.status.reasons()
        assert reason.code == "STALLED"
        assert reason.message == "1 of 3 replicas wait for a read that their disk does not return: orders/1"
        assert "flotilla_stalled_replicas 1" in (await single.status.metrics()).decode()

    run(tmp_path, test)


class HangingLoad:
    """A read that never ends."""

    path = "a segment"
    is_background = False

    def __init__(self, group: int) -> None:
        self.group = group

    def run(self) -> None:
        raise AssertionError


def test_a_damaged_replica_shows_in_health_and_readiness(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        _, group = await single.create_topic("orders", 2)
        single.driver.replicas[group].raft.damaged = [(3, 5)]
        health = single.status.health()
        assert health.is_ok
        assert health.facts["damaged"] == [{"topic": "orders", "partition": 1, "ranges": [[3, 5]]}]
        [reason] = single.status.reasons()
        assert (reason.code, reason.message) == ("DAMAGED", "1 of 3 replicas repair their log: orders/1")

    run(tmp_path, test)


def test_a_failing_disk_shows_in_health_and_readiness(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        for error in (DiskFullError("no room"), StorageFailedError("the sync failed")):
            single.driver.storage_error = error
            health = single.status.health()
            assert not health.is_ok
            assert (health.facts["storage"], health.facts["storage_message"]) == (error.code, str(error))
            assert [(reason.code, reason.message) for reason in single.status.reasons()] == [(error.code, str(error))]
        single.driver.storage_error = None
        assert single.status.health().is_ok

    run(tmp_path, test)


def test_health_names_the_node(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        await single.create_topic("orders", 2)
        facts = single.status.health().facts
        assert facts["status"] == facts["storage"] == "ok"
        assert (facts["node"], facts["cluster"], facts["replicas"], facts["leading"]) == (1, "test", 3, 3)
        uptime_seconds = facts["uptime_seconds"]
        assert isinstance(uptime_seconds, float)
        assert 0 < uptime_seconds < 20

    run(tmp_path, test)


def test_a_group_has_the_name_of_its_partition(tmp_path: Path) -> None:
    async def test(single: SingleNode) -> None:
        await single.found()
        names = GroupNames(single.catalog)
        assert names.of(16) == GroupName("__unassigned", 16)
        first, second = await single.create_topic("orders", 2)
        assert str(names.of(first)) == "orders/0"
        assert str(names.of(second)) == "orders/1"
        assert str(names.of(METADATA_GROUP)) == "__metadata/0"
        await single.delete_topic("orders")
        assert str(names.of(second)) == "orders/1", "its replica may still be here"
        names.forget_except(())
        assert names.of(second) == GroupName("__unassigned", second)
        assert str(names.of(METADATA_GROUP)) == "__metadata/0"

    run(tmp_path, test)
