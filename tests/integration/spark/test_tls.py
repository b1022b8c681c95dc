"""Source and sink with TLS and with a log-in: on the driver, in tasks, and where progress is committed."""

from pathlib import Path
from typing import Any

from flotilla import Password
from flotilla.testing import LocalBroker
from flotilla.types.access import CONSUME, PRODUCE
from tests.integration.spark.tables import drain, read, read_stream, write
from tests.integration.spark.waiting import wait_until
from tests.unit.security.issuing import node_files, trusting, user_tls

PASSWORD = "correct-horse-battery-staple"


def test_a_job_with_certificates_reads_and_writes(spark: Any, tmp_path: Path) -> None:
    certificate, key, ca = node_files(1)
    alice = user_tls("alice")
    options = {"tlsCa": str(alice.ca), "tlsCertificate": str(alice.certificate), "tlsKey": str(alice.key)}
    with (
        LocalBroker(tls_certificate=certificate, tls_key=key, tls_ca=ca, tls_client_certificates="required") as broker,
        broker.client(tls=alice) as client,
    ):
        client.create_topic("orders", partitions=2)
        rows = spark.range(10).selectExpr("cast(id as string) as value")
        write(rows, broker.address, topic="orders", **options)
        found = read(spark, broker.address, subscribe="orders", **options)
        assert sorted(int(row.value) for row in found.select("value").collect()) == list(range(10))
        stream = read_stream(
            spark, broker.address, subscribe="orders", startingOffsets="earliest", group="jobs", **options
        )
        drain(stream, broker.address, tmp_path, into="noop")

        def committed() -> int:
            return sum(client.committed_offset("orders", "jobs", partition) or 0 for partition in (0, 1))

        wait_until(lambda: committed() == 10, "the group's offsets at the end of the topic")


def told(spark: Any) -> str:
    """What the pages of Spark show of its queries, and of its settings."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [
        f"{each.description()} {each.details()} {each.physicalPlanDescription()}"
        for each in (executions.apply(at) for at in range(executions.size()))
    ]
    assert plans
    return "\n".join([*plans, *map(str, spark.sparkContext.getConf().getAll())])


def test_a_job_logs_in_with_a_password_that_no_plan_and_no_page_has(spark: Any, tmp_path: Path) -> None:
    certificate, key, ca = node_files(1)
    secret = tmp_path / "secret-of-alice"
    secret.write_text(PASSWORD + "\n")
    secret.chmod(0o600)
    tls = trusting()
    options = {"tlsCa": str(tls.ca), "user": "alice", "passwordFile": str(secret)}
    root = Password("root", "another long password")
    with LocalBroker(authentication=True, tls_certificate=certificate, tls_key=key, tls_ca=ca) as broker:
        with broker.client(tls=tls) as nobody:
            nobody.admin.users.create_administrator("root", "another long password")
        with broker.client(tls=tls, credentials=root) as admin:
            admin.create_topic("orders", partitions=2)
            admin.admin.users.create("alice", PASSWORD)
            for action in (PRODUCE, CONSUME):
                admin.admin.grants.add("alice", action, "orders")
            write(spark.range(10).selectExpr("cast(id as string) as value"), broker.address, topic="orders", **options)
            found = read(spark, broker.address, subscribe="orders", **options)
            assert sorted(int(row.value) for row in found.select("value").collect()) == list(range(10))
            stream = read_stream(
                spark, broker.address, subscribe="orders", startingOffsets="earliest", group="jobs", **options
            )
            drain(stream, broker.address, tmp_path, into="noop")
            texts = [told(spark), found._jdf.queryExecution().toString(), stream._jdf.queryExecution().toString()]
    for text in texts:
        assert PASSWORD not in text
