"""Plans of schedules, for tests."""

from typing import Any

from flotilla.metadata.scheduling.schedules import Plan
from flotilla.types.schedules import MISSED_COUNT, ONE


def plan(**changes: Any) -> Plan:
    values: dict[str, Any] = {
        "topic": "reports",
        "cron": "" if "every_ms" in changes else "0 3 * * *",
        "every_ms": 0,
        "time_zone": "",
        "start_ms": 0,
        "missed": ONE,
        "missed_max": MISSED_COUNT,
        "payload": b"all",
        "key": b"",
        "headers": (),
        "priority": 0,
        "content_type": 0,
    }
    return Plan(**{**values, **changes})
