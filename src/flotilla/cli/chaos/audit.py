"""The books of `flotilla chaos`, audited with Spark: every acknowledged message against the log and the work done."""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from flotilla.cli.demo.ledger import Place
from flotilla.types.errors import UnsupportedError


def check_audit() -> None:
    """Raises UnsupportedError when Spark or Java is not installed."""
    from flotilla.spark.pipelines.session import missing_parts

    missing = missing_parts()
    if missing:
        raise UnsupportedError(missing)


def audit_books(
    topic: str,
    servers: list[str],
    acknowledged: Iterable[tuple[int, Place]],
    dealt_with: Iterable[Place],
    folder: Path,
) -> dict[str, int]:
    """How many findings there are of each kind."""
    from flotilla.spark.pipelines.audit import AuditOptions, audit
    from flotilla.spark.pipelines.session import open_session

    promised, done = folder / "acknowledged.jsonl", folder / "dealt-with.jsonl"
    with promised.open("w") as file:
        for number, place in acknowledged:
            digest = sha256(b"%d" % number).hexdigest()
            print(json.dumps({"topic": topic, **place._asdict(), "digest": digest}), file=file)
    with done.open("w") as file:
        for place in dealt_with:
            print(json.dumps({"topic": topic, **place._asdict()}), file=file)
    with open_session("chaos", is_brief=True) as spark:
        options = AuditOptions(",".join(servers), str(promised), str(folder / "audit"), consumed=str(done))
        return audit(spark, options).counts
