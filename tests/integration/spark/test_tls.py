"""Source and sink with TLS: on the driver, in tasks, and where progress is committed."""

from pathlib import Path
from typing import Any

from flotilla.testing import LocalBroker
from tests.integration.spark.tables import drain, read, read_stream, write
from tests.integration.spark.waiting import wait_until
from tests.unit.security.issuing import node_files, user_tls


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
