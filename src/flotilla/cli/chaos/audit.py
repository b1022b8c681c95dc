"""The audit of `flotilla chaos` with Spark: every acknowledged message against the log and the settled messages."""

import json
from hashlib import sha256
from pathlib import Path

from flotilla.cli.chaos.storm import TOPIC, WorkLedger
from flotilla.spark.pipelines.audit import AuditOptions, audit
from flotilla.spark.pipelines.session import open_session


def audit_ledger(ledger: WorkLedger, servers: list[str], folder: Path) -> dict[str, int]:
    """The number of findings of each kind."""
    acknowledged, settled = folder / "acknowledged.jsonl", folder / "settled.jsonl"
    with acknowledged.open("w") as file:
        for number, place in ledger.acknowledged.items():
            digest = sha256(b"%d" % number).hexdigest()
            print(json.dumps({"topic": TOPIC, **place._asdict(), "digest": digest}), file=file)
    with settled.open("w") as file:
        for place in ledger.settled:
            print(json.dumps({"topic": TOPIC, **place._asdict()}), file=file)
    with open_session("chaos", is_brief=True) as spark:
        options = AuditOptions(",".join(servers), str(acknowledged), str(folder / "audit"), consumed=str(settled))
        return audit(spark, options).counts
