"""Makes the recording of this version: `python -m tests.upgrade.recording` before a release, and never again for it.

A recording is an archive with the data directory of a node that was killed, so that its journal has to be read, a
backup of it, and what was in both. Later versions must load it (`test_recordings.py`).
"""

import json
import os
import shutil
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from typer.testing import CliRunner

from flotilla.cli.app import app
from flotilla.client.client import Client
from flotilla.types.errors import NotFoundError
from flotilla.types.version import __version__
from tests.upgrade.node_here import node_here, records

FOLDER = Path(__file__).parent / "recordings"
TOPICS = ("orders", "dlq.workers.orders", "pairs")


def fill(client: Client) -> None:
    """Everything that is stored in a form of its own. Nothing in it depends on the day on which it is loaded."""
    client.create_topic("orders", partitions=2, retention_ms="0")
    client.create_topic("pairs", partitions=2, retention_ms="0")
    for number in range(20):
        client.produce("orders", b"%d" % number, key=b"k%d" % (number % 3), headers={"n": b"%d" % number})
    client.produce_many("orders", [b"compressed " * 50 for _ in range(50)], partition=0)
    client.produce("orders", b"once", idempotency_key="once", partition=1)
    with client.transaction() as transaction:
        for partition in (0, 1):
            transaction.produce("pairs", b"both", partition=partition)
    with client.queue("orders", group="workers", prefetch=100) as consumer:
        leased: dict[bytes, Any] = {}
        while len(leased) < 22:
            leased |= {message.payload: message for message in consumer.poll(100)}
        for number in range(10):
            leased[b"%d" % number].ack(result=b"r%d" % number)
        leased[b"10"].reject(reason="broken")
        client.commit_offset("orders", "readers", 0, 7)
        client.alter_group("orders", "workers", max_deliveries="9")
        client.schedules.create("nightly", "orders", b"run", cron="0 3 * * *")
        client.schedules.pause("nightly")
        client.admin.users.create("ann", "a long password")
        client.admin.grants.add("ann", "consume", "orders")
        while not _has_letter(client):
            pass


def _has_letter(client: Client) -> bool:
    try:
        return bool(records(client, TOPICS[1]))
    except NotFoundError:
        return False


def observe(client: Client) -> dict[str, Any]:
    """What a later version must find, as JSON has it."""
    group = client.describe_group("orders", "workers")
    found = {
        "records": {
            topic: [(p, o, v.hex(), (k or b"").hex()) for p, o, v, k in records(client, topic)] for topic in TOPICS
        },
        "position": client.committed_offset("orders", "readers", 0),
        "group": {"lag": group.lag, "acked": group.acked_total, "dead": group.dead_total},
        "rules": client.alter_group("orders", "workers"),
        "schedules": [(each.name, each.is_paused) for each in client.schedules.list()],
        "users": [user.name for user in client.admin.users.list()],
        "grants": [str(grant) for grant in client.admin.grants.list()],
    }
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def main() -> None:
    target = FOLDER / f"{__version__}.tar.gz"
    if target.exists():
        sys.exit(f"{target} exists: a recording is made once")
    with TemporaryDirectory() as name:
        made = Path(name)
        with node_here(made / "running") as client:
            fill(client)
            servers = ",".join(broker.client for broker in client.admin.metadata().brokers)
            words = ["cluster", "backup", str(made / "backup")]
            assert CliRunner(env={"FLOTILLA_SERVERS": servers}).invoke(app, words).exit_code == 0
            (made / "expected.json").write_text(json.dumps(observe(client), indent=1))
            # As a power cut would leave it: the node has not stopped.
            shutil.copytree(made / "running", made / "data", ignore=shutil.ignore_patterns("lock"))
        FOLDER.mkdir(exist_ok=True)
        with tarfile.open(target, "w:gz", compresslevel=9) as tar:
            for part in ("data", "backup", "expected.json"):
                tar.add(made / part, part)
    print(target, os.path.getsize(target))


if __name__ == "__main__":
    main()
